"""How fast work goes, as measured lately."""

from __future__ import annotations

import math

MEMORY = 10.0
"""Seconds after which a measurement counts for about a third."""

INFLOW_MEMORY = 5.0
"""The same for what comes in: a spike is to be seen soon."""

LEAST = 2.0
"""Seconds of measuring before a rate is believed."""

LONGEST_GAP = 60.0
"""Seconds between two measurements that count at most, as a machine that was asleep is not slow. A
long prompt takes so long."""


class Rate:
    """Amounts a second, counted only while there was work all the time. memory: seconds after which
    a measurement counts for about a third. least: seconds of measuring before it is believed."""

    def __init__(self, memory: float = MEMORY, least: float = LEAST) -> None:
        self._memory = memory
        self._least = least
        self._amount = 0.0
        self._seconds = 0.0
        self._since: float | None = None

    @property
    def value(self) -> float | None:
        """None until enough was seen."""
        if self._seconds < self._least or not self._amount:
            return None
        return self._amount / self._seconds

    def note(self, amount: float, now: float, busy: bool) -> None:
        """So much was done. busy: whether there is more to do from now on."""
        if self._since is not None:
            passed = min(now - self._since, LONGEST_GAP)
            kept = math.exp(-passed / self._memory)
            self._amount = self._amount * kept + amount
            self._seconds = self._seconds * kept + passed
        self._since = now if busy else None

    def skip(self, now: float, busy: bool) -> None:
        """What happened since the last measurement tells nothing."""
        self._since = now if busy else None


class Inflow:
    """What comes in a second, lately."""

    def __init__(self) -> None:
        self._amount = 0.0
        self._at = 0.0

    def note(self, amount: float, now: float) -> None:
        self._amount = self._amount * math.exp((self._at - now) / INFLOW_MEMORY) + amount
        self._at = now

    def take_back(self, amount: float, then: float, now: float) -> None:
        """So much of what was noted `then` was not to be."""
        self.note(-amount * math.exp((then - now) / INFLOW_MEMORY), now)

    def value(self, now: float) -> float:
        return max(self._amount, 0.0) * math.exp((self._at - now) / INFLOW_MEMORY) / INFLOW_MEMORY


class Pace:
    """What the worker serves a second at most, as far as that is known: by what it served while
    somebody waited, and until that was seen for long enough by what it serves while nobody does,
    which is less."""

    def __init__(self) -> None:
        self._full = Rate(least=LEAST / 2)
        self._any = Rate(LEAST, least=LEAST / 10)

    @property
    def value(self) -> float | None:
        """None until enough was seen."""
        full = self._full.value
        return self._any.value if full is None else full

    def note(self, amount: float, now: float, waiting: bool) -> None:
        """So much was served. waiting: whether somebody waits for more."""
        self._full.note(amount, now, busy=waiting)
        if self._full.value is None:
            self._any.note(amount, now, busy=True)
