"""How fast work goes, as measured lately."""

from __future__ import annotations

import math

MEMORY = 10.0
"""Seconds after which a measurement counts for about a third."""

INFLOW_MEMORY = 5.0
"""The same for what comes in: a spike is to be seen soon."""

LEAST = 2.0
"""Seconds of measuring before a rate is believed."""

LONGEST_GAP = 2.0
"""Seconds between two measurements that count at most: a machine that was asleep is not slow."""


class Rate:
    """Amounts a second, counted only while there was work all the time."""

    def __init__(self) -> None:
        self._amount = 0.0
        self._seconds = 0.0
        self._since: float | None = None

    @property
    def value(self) -> float | None:
        """None until enough was seen."""
        if self._seconds < LEAST or not self._amount:
            return None
        return self._amount / self._seconds

    def note(self, amount: float, now: float, busy: bool) -> None:
        """So much was done. busy: whether there is more to do from now on."""
        if self._since is not None:
            passed = min(now - self._since, LONGEST_GAP)
            kept = math.exp(-passed / MEMORY)
            self._amount = self._amount * kept + amount
            self._seconds = self._seconds * kept + passed
        self._since = now if busy else None


class Inflow:
    """What comes in a second, lately."""

    def __init__(self) -> None:
        self._amount = 0.0
        self._at = 0.0

    def note(self, amount: float, now: float) -> None:
        self._amount = self._amount * math.exp((self._at - now) / INFLOW_MEMORY) + amount
        self._at = now

    def value(self, now: float) -> float:
        return self._amount * math.exp((self._at - now) / INFLOW_MEMORY) / INFLOW_MEMORY
