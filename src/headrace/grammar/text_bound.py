"""The bound on texts that the grammar does not count, held beside the grammar."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Items
from typing import NamedTuple

from llguidance import LLMatcher

MARGIN = 512
"""Characters before the bound from which on it is asked what text this is."""


class Marks(NamedTuple):
    """Tokens by which texts are told apart.

    unbounded: U+0008 as JSON writes it, which texts with a bound can't have. free: a line break,
    which no text in JSON has as it is.
    """

    unbounded: Items[int]
    free: Items[int]


class TextBound:
    """Whether a text that has a bound is longer than it, in one answer.

    The characters since the last quote are counted. Near the bound the grammar is asked what
    stands there. Free text and thoughts go on. So does a text in JSON that has no bound. But where
    the grammar leaves several readings, only those without a bound hold from then on: they are
    followed beside the grammar. Whatever else stands there may have as many characters as the
    bound says. What is said is a function of the tokens.
    """

    def __init__(self, piece: Callable[[int], bytes], most: int, marks: Marks) -> None:
        """piece: the bytes of a token. most: characters that a text with a bound may have."""
        self._piece = piece
        self._most = most
        self._marks = marks
        self._length = 0
        self._escaped = False
        self._unfinished = 0
        self._known: bool | None = None
        self._readings: LLMatcher | None = None
        self._exceeded = False

    @property
    def exceeded(self) -> bool:
        """Whether a text may be longer than it should."""
        return self._exceeded

    def take(self, token: int, place: Callable[[], LLMatcher]) -> None:
        """The answer's next token. place: gives a copy of the grammar's matcher behind it."""
        if self._readings is not None and not self._readings.try_consume_tokens([token]):
            self._exceeded = True
        self._measure(self._piece(token))
        near = self._length > self._most - MARGIN and not (self._escaped or self._unfinished)
        if near and self._known is None and not self._exceeded:
            self._known = self._may_go_on(place)

    def _may_go_on(self, place: Callable[[], LLMatcher]) -> bool:
        """Whether the text that has begun has no bound, in some reading."""

        def copy() -> LLMatcher:
            return place() if self._readings is None else self._readings.deep_copy()

        if _takes(copy(), self._marks.free):
            return True
        unbounded = copy()
        if not _takes(unbounded, self._marks.unbounded):
            return False
        self._readings = unbounded
        return True

    def _measure(self, piece: bytes) -> None:
        for byte in piece:
            continues = byte & 0xC0 == 0x80
            if byte == 0x22 and not self._escaped:
                self._length, self._known = 0, None
            elif not continues and (self._escaped or byte != 0x5C):
                self._length += 1
                self._exceeded |= self._length > self._most and not self._known
            self._escaped = byte == 0x5C and not self._escaped
            self._unfinished = max(0, self._unfinished - 1) if continues else _following(byte)


def _following(byte: int) -> int:
    """How many bytes of UTF-8 follow a first one."""
    return (byte >= 0xC0) + (byte >= 0xE0) + (byte >= 0xF0)


def _takes(matcher: LLMatcher, tokens: Items[int]) -> bool:
    return bool(matcher.try_consume_tokens([*tokens]) == len(tokens))
