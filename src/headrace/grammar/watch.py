"""Repetition that would not end, which cuts an answer."""

from __future__ import annotations

import numpy as np

WINDOW = 512
"""Tokens that repeat one cycle until an answer is cut."""

MAX_CYCLE = 64
"""Tokens of a cycle."""

AHEAD = 4_096
"""Tokens for which a cycle has to be allowed to go on, or it will end by itself."""

_EVERY = 32


class Watch:
    """Sees the tokens of one answer and finds cycles in them. What it says is a function of the
    tokens."""

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._count = 0

    def take(self, token: int) -> None:
        """The answer's next token."""
        self._count += 1
        self._tokens.append(token)
        if len(self._tokens) > 2 * WINDOW:
            del self._tokens[:-WINDOW]

    def cycle(self) -> list[int] | None:
        """The tokens that the last `WINDOW` tokens repeat, if they do. Looked for now and then."""
        if self._count < WINDOW or self._count % _EVERY:
            return None
        last = np.array(self._tokens[-WINDOW:], dtype=np.int64)
        for length in range(1, MAX_CYCLE + 1):
            if last[-1] == last[-1 - length] and bool((last[length:] == last[:-length]).all()):
                return self._tokens[-length:]
        return None
