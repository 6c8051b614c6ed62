"""The fewest tokens that a text can have, told without tokenising it."""

from __future__ import annotations

import string
import sys
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 16
"""Characters that are counted at once, so that memory stays small and other threads run."""

_GROUPS = (
    string.ascii_lowercase,
    string.ascii_uppercase,
    string.ascii_letters,
    string.digits,
    string.ascii_letters + string.digits,
    string.punctuation,
    " \t\n\r",
)
_ASCII = 128
_END = "\0"  # behind a text, where another one follows


class FewestTokens:
    """A lower bound for the tokens of a text.

    Of a kind of bytes (one byte, all digits, all bytes) no token holds more than the token that
    holds most of them. So a text has at least as many tokens as it has such bytes, divided by
    that number. The bound is the highest over all kinds. It takes a few milliseconds a megabyte.
    """

    def __init__(self, pieces: Iterable[bytes], *, composes: bool) -> None:
        """pieces: the bytes of every token that text can become. composes: the tokenizer's
        normaliser may join an ASCII character with others that follow it, as NFC does. Then only
        ASCII characters before other ASCII characters count, since they stay what they are.

        Bytes for which there is no token of their own do not count either: a tokenizer may drop
        them or let one unknown token stand for many of them.
        """
        pieces = [piece for piece in pieces if piece]
        self._composes = composes
        countable = np.zeros(256, bool)
        countable[[piece[0] for piece in pieces if len(piece) == 1]] = True
        if composes:
            countable[_ASCII:] = False
        kinds = np.zeros((256 + len(_GROUPS) + 1, 256), np.int64)
        kinds[np.arange(256), np.arange(256)] = 1
        for row, group in enumerate(_GROUPS, 256):
            kinds[row, list(group.encode())] = 1
        kinds[-1] = 1
        kinds[:, ~countable] = 0
        self._kinds = kinds
        self._most = np.maximum(_most_in_a_piece(pieces, kinds), 1)

    def of(self, texts: Iterable[str], enough: int = sys.maxsize) -> int:
        """A number of tokens that the texts have at least, each tokenised by itself. Ends as soon
        as it is more than `enough`."""
        counts = np.zeros(256, np.int64)
        fewest = 0
        for block in _blocks(texts):
            counts += self._counts(block)
            fewest = int(np.max(-(-(self._kinds @ counts) // self._most)))
            if fewest > enough:
                break
        return fewest

    def _counts(self, block: _Block) -> NDArray[np.int64]:
        raw = np.frombuffer(block.text.encode("utf-8", "replace"), np.uint8)
        if self._composes and not (block.ends and block.text.isascii()):
            ascii = raw < _ASCII
            alone = ascii.copy()
            alone[:-1] &= ascii[1:]
            alone[-1:] &= block.ends  # else what follows it stands in the next block
            raw = raw[alone]
        counts = np.bincount(raw, minlength=256).astype(np.int64)
        counts[ord(_END)] -= block.text_ends
        return counts


class _Block(NamedTuple):
    """Texts one after another. text_ends: how many end in it, behind each of which stands _END.
    ends: whether the last one does, else the next block goes on with it."""

    text: str
    text_ends: int
    ends: bool


def _blocks(texts: Iterable[str]) -> Iterator[_Block]:
    """Blocks of some BLOCK characters."""
    waiting: list[str] = []
    size = 0
    for text in texts:
        for start in range(0, len(text), BLOCK):
            ends = start + BLOCK >= len(text)
            waiting.append(text[start : start + BLOCK])
            size += len(waiting[-1])
            if size >= BLOCK or not ends:
                joined = _END.join([*waiting, ""] if ends else waiting)
                yield _Block(joined, len(waiting) - (not ends), ends)
                waiting, size = [], 0
    if waiting:
        yield _Block(_END.join([*waiting, ""]), len(waiting), True)


def _most_in_a_piece(pieces: list[bytes], kinds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of each kind, how many bytes the piece has that has most of them."""
    most = np.zeros(len(kinds), np.int64)
    raw = np.frombuffer(b"".join(pieces), np.uint8)
    lengths = np.array([len(piece) for piece in pieces], np.int64)
    if not len(raw):
        return most
    pairs, counts = np.unique(
        np.repeat(np.arange(len(pieces)), lengths) * 256 + raw, return_counts=True
    )
    np.maximum.at(most, pairs % 256, counts)  # of single bytes
    ends = np.cumsum(lengths)
    for row in range(256, len(kinds)):
        sums = np.concatenate([[0], np.cumsum(kinds[row][raw])])
        most[row] = np.max(sums[ends] - sums[ends - lengths])
    return most
