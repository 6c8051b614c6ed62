"""A constraint that may make its neighbours wait only so long."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Items

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

    @property
    def cut(self) -> bool:
        return self._constraint.cut

    def accept(self, token: int) -> None:
        begun = self._clock()
        self._constraint.accept(token)
        self._spend(begun)

    def allows(self, tokens: Items[int]) -> int:
        begun = self._clock()
        allowed = self._constraint.allows(tokens)
        self._spend(begun)
        return allowed

    def forced(self) -> list[int]:
        begun = self._clock()
        forced = self._constraint.forced()
        self._spend(begun)
        return forced

    def mask(self, row: NDArray[np.uint32], after: Items[int] = ()) -> bool:
        begun = self._clock()
        some = self._constraint.mask(row, after)
        self._spare += USUAL_SECONDS
        self._spend(begun)
        self._spare = min(self._spare, SPARE_SECONDS)
        return some

    def _spend(self, begun: float) -> None:
        self._spare -= self._clock() - begun
        if self._spare < 0:
            raise ValueError("it became too costly")
