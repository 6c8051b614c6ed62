"""Tasks of several owners, of whom the one that used least goes next."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T", bound=Hashable)

VOID_ENTRIES = 64
"""Entries of a heap that may be void before it is made anew."""


@dataclass(eq=False, slots=True)
class _Owner(Generic[T]):
    """time: what its tasks cost so far, as virtual time in seconds. waiting: its tasks in order.
    place: the running tasks and the time with which it stands among those who may go, None if it
    may not. entry: the number of its valid entry in a heap."""

    time: float
    waiting: OrderedDict[T, None] = field(default_factory=OrderedDict)
    running: int = 0
    entry: int = 0
    place: tuple[int, float] | None = None


class FairQueue(Generic[T]):
    """Owners take turns: first those with the fewest tasks running, among them the one whose
    tasks cost least so far. An owner that comes back after a pause starts where the others are:
    the pause earns no credit. Once nobody has a task, all start anew.

    A call costs O(log n) for n owners with tasks. Owners without tasks are dropped. Not safe to
    use from several threads at once.
    """

    def __init__(self, most_running: int) -> None:
        """most_running: of one owner's tasks at once."""
        self._most_running = most_running
        self._owners: dict[Hashable, _Owner[T]] = {}
        self._ready: list[tuple[tuple[int, float], int, Hashable]] = []
        self._resting: list[tuple[float, int, Hashable]] = []  # owners without tasks
        self._entries = 0
        self._tasks = 0
        self._now = 0.0

    def put(self, owner: Hashable, task: T) -> None:
        """Add a task behind the owner's others. task: no other one is equal to it."""
        party = self._owners.get(owner)
        if party is None:
            party = self._owners[owner] = _Owner(self._now)
        elif not party.waiting and not party.running:
            party.time = max(party.time, self._now)
        party.waiting[task] = None
        self._tasks += 1
        self._enter(owner, party)

    def take(self) -> tuple[Hashable, T] | None:
        """The next owner and its first task, which runs from now on; None if nobody may go."""
        while self._ready:
            (_, time), entry, owner = heapq.heappop(self._ready)
            party = self._owners.get(owner)
            if party is None or party.entry != entry:
                continue
            self._now = max(self._now, time)
            task, _ = party.waiting.popitem(last=False)
            party.running += 1
            party.place = None
            self._enter(owner, party)
            self._drop_rested()
            return owner, task
        return None

    def done(self, owner: Hashable, cost: float) -> None:
        """A task of the owner has ended. cost: seconds that it took since it was taken."""
        self._tasks -= 1
        self._stopped(owner, cost)

    def again(self, owner: Hashable, task: T, cost: float) -> None:
        """A task has more to do. It waits for its next turn, before the owner's others."""
        waiting = self._owners[owner].waiting
        waiting[task] = None
        waiting.move_to_end(task, last=False)
        self._stopped(owner, cost)

    def remove(self, owner: Hashable, task: T) -> bool:
        """Take a waiting task out. Returns whether it waited."""
        party = self._owners.get(owner)
        if party is None or task not in party.waiting:
            return False
        del party.waiting[task]
        self._tasks -= 1
        self._enter(owner, party)
        return True

    def waiting(self, owner: Hashable) -> int:
        """How many tasks of an owner wait."""
        party = self._owners.get(owner)
        return 0 if party is None else len(party.waiting)

    def __len__(self) -> int:
        """How many owners are remembered."""
        return len(self._owners)

    def _stopped(self, owner: Hashable, cost: float) -> None:
        party = self._owners[owner]
        party.running -= 1
        party.time += cost
        self._enter(owner, party)

    def _enter(self, owner: Hashable, party: _Owner[T]) -> None:
        """Let an owner stand where it should stand now."""
        if not self._tasks:
            self._owners.clear()
            self._ready.clear()
            self._resting.clear()
            return
        may_go = party.waiting and party.running < self._most_running
        place = (party.running, party.time) if may_go else None
        if place is not None and place == party.place:
            return
        party.place = place
        party.entry = self._entries = self._entries + 1
        if place is not None:
            heapq.heappush(self._ready, (place, party.entry, owner))
        elif not party.waiting and not party.running:
            heapq.heappush(self._resting, (party.time, party.entry, owner))
        heaps: tuple[list[Any], ...] = (self._ready, self._resting)
        for heap in heaps:
            if len(heap) > VOID_ENTRIES + 2 * len(self._owners):
                heap[:] = [each for each in heap if self._is_valid(each[2], each[1])]
                heapq.heapify(heap)

    def _drop_rested(self) -> None:
        """Forget owners without tasks who would come back to what newcomers start with."""
        while self._resting and self._resting[0][0] <= self._now:
            _, entry, owner = heapq.heappop(self._resting)
            if self._is_valid(owner, entry):
                del self._owners[owner]

    def _is_valid(self, owner: Hashable, entry: int) -> bool:
        party = self._owners.get(owner)
        return party is not None and party.entry == entry
