"""Things in the order of a number that changes."""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import count, islice
from typing import Generic, TypeVar

T = TypeVar("T")

Rank = tuple[float, int]
"""The number, and a serial number that breaks ties: first come, first."""


class Ranking(Generic[T]):
    """The smallest first. A sorted list: to look is free, to change takes two searches and moves
    of a few kilobytes, which for some thousand things is faster than a heap whose keys change."""

    def __init__(self) -> None:
        self._ranks: dict[T, Rank] = {}
        self._order: list[tuple[float, int, T]] = []
        self._serial = count()

    def __len__(self) -> int:
        return len(self._order)

    def put(self, thing: T, number: float) -> None:
        """Add it, or give it another number."""
        known = self._ranks.get(thing)
        if known is not None:
            if known[0] == number:
                return
            del self._order[bisect_left(self._order, known)]
        serial = next(self._serial)
        self._ranks[thing] = (number, serial)
        insort(self._order, (number, serial, thing))

    def discard(self, thing: T) -> None:
        """Nothing happens if it isn't there."""
        known = self._ranks.pop(thing, None)
        if known is not None:
            del self._order[bisect_left(self._order, known)]

    def smallest(self, most: int) -> list[T]:
        """So many, the smallest first."""
        return [thing for _, _, thing in islice(self._order, most)]

    @property
    def first(self) -> T | None:
        """None if there is nothing."""
        return self._order[0][2] if self._order else None
