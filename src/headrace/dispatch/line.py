"""The waiting requests of one tenant, in its own order."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right

from headrace.dispatch.entry import Entry


class Line:
    """Kept ones first; then the earliest deadline, and among equals first come, first served; but
    one that waited for `age` seconds goes before all. Entries are few enough that shifting a list
    is nothing."""

    __slots__ = ("_by_arrival", "_costs", "_in_order", "cost")

    def __init__(self) -> None:
        self._in_order: list[Entry] = []
        self._costs: list[int] = []  # what each was expected to cost, in the same order
        self._by_arrival: dict[Entry, None] = {}
        self.cost = 0

    def __len__(self) -> int:
        return len(self._in_order)

    def __contains__(self, entry: Entry) -> bool:
        return entry in self._by_arrival

    def add(self, entry: Entry) -> int:
        """What it is expected to cost, by which the line counts it until it leaves."""
        self._by_arrival[entry] = None
        return self._put_in(entry)

    def remove(self, entry: Entry) -> int:
        """What it was expected to cost. Raises KeyError if it isn't there."""
        del self._by_arrival[entry]
        return self._take_out(entry)

    def keep(self, entry: Entry) -> None:
        """It must not be late any more, whatever its deadline was: it goes before all others."""
        self._take_out(entry)
        entry.keep()
        self._put_in(entry)

    def head(self, now: float, age: float) -> Entry:
        """Raises IndexError if nobody waits."""
        first = self._in_order[0]
        if len(self._in_order) == 1:
            return first
        oldest = self.oldest
        return oldest if now - oldest.arrived >= age else first

    @property
    def oldest(self) -> Entry:
        return next(iter(self._by_arrival))

    @property
    def last(self) -> Entry:
        """Of the latest deadline, and of those the youngest; a kept one if there are no others."""
        return self._in_order[-1]

    def cost_before(self, deadline: float) -> int:
        """Of those who are served before a newcomer with this deadline."""
        if not self._in_order or deadline >= self._in_order[-1].deadline:
            return self.cost
        count = bisect_right(self._in_order, (True, deadline, math.inf), key=_order)
        return sum(self._costs[:count])

    def _put_in(self, entry: Entry) -> int:
        cost = entry.cost
        self.cost += cost
        if not self._in_order or _order(self._in_order[-1]) <= _order(entry):
            self._in_order.append(entry)
            self._costs.append(cost)
        else:
            at = bisect_right(self._in_order, _order(entry), key=_order)
            self._in_order.insert(at, entry)
            self._costs.insert(at, cost)
        return cost

    def _take_out(self, entry: Entry) -> int:
        at = 0
        if self._in_order[0] is not entry:
            first = bisect_left(self._in_order, _order(entry), key=_order)
            at = self._in_order.index(entry, first)
        del self._in_order[at]
        cost = self._costs.pop(at)
        self.cost -= cost
        return cost


def _order(entry: Entry) -> tuple[bool, float, float]:
    return not entry.kept, entry.deadline, entry.arrived
