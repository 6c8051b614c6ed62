"""A constraint that may make its neighbours wait only so long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Items
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from headrace.engine.constraint import Constraint

USUAL_SECONDS = 0.002
"""That a mask may take for as long as the answer goes on; ten times what a costly one takes."""

SPARE_SECONDS = 0.15
"""For a few costly masks, of which every automaton has some at its start."""


class Metered:
    """Raises ValueError as soon as following the grammar took more than it may. All of it counts,
    since a step waits for all of it; what masks save is kept, up to a bound.

    clock: in seconds. Not the time of day: who else had the processor meanwhile must not decide
    about an answer.
    """

    def __init__(self, constraint: Constraint, clock: Callable[[], float]) -> None:
        self._constraint = constraint
        self._clock = clock
        self._spare = SPARE_SECONDS

    @property
    def exhausted(self) -> bool:
        return self._constraint.exhausted

    def accept(self, token: int) -> None:
        with self._spending():
            self._constraint.accept(token)

    def allows(self, tokens: Items[int]) -> int:
        with self._spending():
            return self._constraint.allows(tokens)

    def forced(self) -> list[int]:
        with self._spending():
            return self._constraint.forced()

    def mask(self, row: NDArray[np.uint32], after: Items[int] = ()) -> None:
        self._spare += USUAL_SECONDS
        with self._spending():
            self._constraint.mask(row, after)
        self._spare = min(self._spare, SPARE_SECONDS)

    @contextmanager
    def _spending(self) -> Iterator[None]:
        begun = self._clock()
        yield
        self._spare -= self._clock() - begun
        if self._spare < 0:
            raise ValueError("it became too costly")
