"""Things in the order of a number that changes."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain, islice
from typing import Generic, TypeVar

T = TypeVar("T")


class Ranking(Generic[T]):
    """The smallest number first; of equal numbers first come, first.

    The numbers are in a sorted list, each once. To look at the first things is free. To change one
    takes two searches in that list and moves of a few kilobytes, which for some thousand things is
    faster than a heap whose keys change, and less where many have the same number.
    """

    __slots__ = ("_number", "_numbers", "_things")

    def __init__(self) -> None:
        self._number: dict[T, float] = {}
        self._numbers: list[float] = []
        # Not a dict, which takes long to find its first thing once many before it were taken out.
        self._things: dict[float, OrderedDict[T, None]] = {}

    def __len__(self) -> int:
        return len(self._number)

    def __iter__(self) -> Iterator[T]:
        """In order. Nothing may change meanwhile."""
        return chain.from_iterable(map(self._things.__getitem__, self._numbers))

    def put(self, thing: T, number: float) -> None:
        """Add it, or give it another number."""
        known = self._number.get(thing)
        if known == number:
            return
        if known is not None:
            self._take_out(thing, known)
        self._number[thing] = number
        level = self._things.get(number)
        if level is None:
            level = self._things[number] = OrderedDict()
            insort(self._numbers, number)
        level[thing] = None

    def discard(self, thing: T) -> None:
        """Nothing happens if it isn't there."""
        known = self._number.pop(thing, None)
        if known is not None:
            self._take_out(thing, known)

    def smallest(self, most: int) -> list[T]:
        """So many, the smallest first."""
        return list(islice(iter(self), most))

    @property
    def first(self) -> T | None:
        """None if there is nothing."""
        return next(iter(self), None)

    def _take_out(self, thing: T, number: float) -> None:
        level = self._things[number]
        del level[thing]
        if not level:
            del self._things[number]
            del self._numbers[bisect_left(self._numbers, number)]
