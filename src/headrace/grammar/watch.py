"""What is watched beside a grammar, and cuts an answer that would not end."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

WINDOW = 512
"""Tokens that repeat one cycle until an answer is cut."""

MAX_CYCLE = 64
"""Tokens of a cycle."""

AHEAD = 4_096
"""Tokens for which a cycle has to be allowed to go on, or it will end by itself."""

_EVERY = 32
_MARK = re.compile(r'x-maxLength\\*": ([0-9]+)')


def longest_string(grammar: str) -> int | None:
    """The least length of strings that a grammar leaves to be watched (`schemas.strings`)."""
    marks = _MARK.findall(grammar) if "x-maxLength" in grammar else ()
    return min(map(int, marks), default=None)


class Watch:
    """Sees the tokens of one answer; what it says is a function of them.

    It counts the characters since the last quote, which are at least those of a JSON string that
    has begun: counted by the grammar, long ones would take a state for each character.
    """

    def __init__(
        self, piece: Callable[[int], bytes], longest: int | None, *, repetition: bool
    ) -> None:
        """piece: the bytes of a token. longest: characters that a string may have, None for any
        number. repetition: whether cycles of tokens are looked for."""
        self._piece = piece
        self._longest = longest
        self._repetition = repetition
        self._length = 0
        self._escaped = False
        self._tokens: list[int] = []
        self._count = 0

    def take(self, token: int) -> None:
        """The answer's next token."""
        if self._longest is not None:
            self._measure(self._piece(token))
        if self._repetition:
            self._count += 1
            self._tokens.append(token)
            if len(self._tokens) > 2 * WINDOW:
                del self._tokens[:-WINDOW]

    @property
    def too_long(self) -> bool:
        """Whether a string may be longer than it should."""
        return self._longest is not None and self._length > self._longest

    def cycle(self) -> list[int] | None:
        """The tokens that the last `WINDOW` tokens repeat, if they do. Looked for now and then."""
        if self._count < WINDOW or self._count % _EVERY:
            return None
        last = np.array(self._tokens[-WINDOW:], dtype=np.int64)
        for length in range(1, MAX_CYCLE + 1):
            if last[-1] == last[-1 - length] and bool((last[length:] == last[:-length]).all()):
                return self._tokens[-length:]
        return None

    def _measure(self, piece: bytes) -> None:
        for byte in piece:
            if byte == 0x22 and not self._escaped:
                self._length = 0
            elif byte & 0xC0 != 0x80:
                self._length += 1
            self._escaped = byte == 0x5C and not self._escaped
