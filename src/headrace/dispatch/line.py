"""The waiting requests of one tenant, in its own order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

from headrace.dispatch.entry import Entry


class Line:
    """Earliest deadline first, and among equals first come, first served; but one that waited
    for `age` seconds goes before all. Entries are few enough that shifting a list is nothing."""

    def __init__(self) -> None:
        self._by_deadline: list[Entry] = []
        self._by_arrival: dict[Entry, int] = {}  # with what each was expected to cost
        self.cost = 0

    def __len__(self) -> int:
        return len(self._by_deadline)

    def __contains__(self, entry: Entry) -> bool:
        return entry in self._by_arrival

    def add(self, entry: Entry) -> None:
        insort(self._by_deadline, entry, key=_order)
        self._by_arrival[entry] = entry.cost
        self.cost += entry.cost

    def remove(self, entry: Entry) -> None:
        """Raises KeyError if it isn't there."""
        self.cost -= self._by_arrival.pop(entry)
        first = bisect_left(self._by_deadline, _order(entry), key=_order)
        del self._by_deadline[self._by_deadline.index(entry, first)]

    def head(self, now: float, age: float) -> Entry:
        """Raises IndexError if nobody waits."""
        earliest = self._by_deadline[0]
        oldest = self.oldest
        return oldest if now - oldest.arrived >= age else earliest

    @property
    def oldest(self) -> Entry:
        return next(iter(self._by_arrival))

    @property
    def earliest(self) -> Entry:
        """Of the earliest deadline."""
        return self._by_deadline[0]

    @property
    def last(self) -> Entry:
        """Of the latest deadline, and of those the youngest."""
        return self._by_deadline[-1]

    def cost_before(self, deadline: float) -> int:
        """Of those who are served before a newcomer with this deadline."""
        if not self._by_deadline or deadline >= self.last.deadline:
            return self.cost
        count = bisect_right(self._by_deadline, deadline, key=lambda entry: entry.deadline)
        return sum(self._by_arrival[entry] for entry in self._by_deadline[:count])


def _order(entry: Entry) -> tuple[float, float]:
    return entry.deadline, entry.arrived
