"""How fast work goes, as measured lately."""

from __future__ import annotations

import math

MEMORY = 10.0
"""Seconds after which a measurement counts for about a third."""

LEAST = 0.5
"""Seconds of measuring before a rate is believed."""


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
            passed = now - self._since
            kept = math.exp(-passed / MEMORY)
            self._amount = self._amount * kept + amount
            self._seconds = self._seconds * kept + passed
        self._since = now if busy else None
