"""How fast work goes, as measured lately."""

from __future__ import annotations

from math import exp

MEMORY = 10.0
"""Seconds after which a measurement counts for about a third."""

INFLOW_MEMORY = 5.0
"""The same for what comes in: a spike is to be seen soon."""

FULL_MEMORY, NOW_MEMORY = 10.0, 2.0
"""The same for what is served while somebody waits, and at all."""

OUTFLOW_MEMORY = 8.0
"""The same for what a class is served."""

LEAST_FILLED = 0.7
"""A worker that has more places free than this leaves is expected to serve no more than that by
filling them: it may be its prompts that take the time."""

LEAST = 2.0
"""Seconds of measuring before a rate is believed."""

LONGEST_GAP = 60.0
"""Seconds between two measurements that count at most, as a machine that was asleep is not slow. A
long prompt takes so long."""


class Rate:
    """Amounts a second, counted only while there was work all the time. memory: seconds after which
    a measurement counts for about a third. least: seconds of measuring before it is believed.
    seconds: of measuring that count."""

    __slots__ = ("_amount", "_least", "_memory", "_since", "seconds")

    def __init__(self, memory: float = MEMORY, least: float = LEAST) -> None:
        self._memory = memory
        self._least = least
        self._amount = 0.0
        self.seconds = 0.0
        self._since: float | None = None

    @property
    def value(self) -> float | None:
        """None until enough was seen."""
        if self.seconds < self._least or not self._amount:
            return None
        return self._amount / self.seconds

    def note(self, amount: float, now: float, busy: bool) -> None:
        """So much was done. busy: whether there is more to do from now on."""
        since = self._since
        self._since = now if busy else None
        if since is None:
            return
        passed = now - since
        if passed > LONGEST_GAP:
            passed = LONGEST_GAP
        kept = exp(-passed / self._memory)
        self._amount = self._amount * kept + amount
        self.seconds = self.seconds * kept + passed

    def skip(self, now: float, busy: bool) -> None:
        """What happened since the last measurement tells nothing."""
        self._since = now if busy else None


class Flow:
    """What comes or goes a second, lately. memory: seconds after which an amount counts for about
    a third."""

    __slots__ = ("_amount", "_at", "_memory")

    def __init__(self, memory: float = INFLOW_MEMORY) -> None:
        self._memory = memory
        self._amount = 0.0
        self._at = 0.0

    def note(self, amount: float, now: float) -> None:
        self._amount = self._amount * exp((self._at - now) / self._memory) + amount
        self._at = now

    def take_back(self, amount: float, then: float, now: float) -> None:
        """So much of what was noted `then` was not to be."""
        self.note(-amount * exp((then - now) / self._memory), now)

    def value(self, now: float) -> float:
        if self._amount <= 0:
            return 0.0
        return self._amount * exp((self._at - now) / self._memory) / self._memory


class Pace:
    """What the worker serves a second at most, as far as that is known: what it served while
    somebody waited. Until that was seen for a while, also what it serves now, by how full it is."""

    __slots__ = ("_full", "_now")

    def __init__(self) -> None:
        self._full = Rate(FULL_MEMORY, least=LEAST / 4)
        self._now = Rate(NOW_MEMORY, least=LEAST / 8)

    def value(self, filled: float) -> float | None:
        """filled: part of its places that is taken. None until enough was seen."""
        full = self._full.value
        if self._full.seconds >= LEAST or (now := self._now.value) is None:
            return full
        guess = now / max(filled, LEAST_FILLED)
        if full is None:
            return guess
        known = self._full.seconds / LEAST
        return known * full + (1 - known) * guess

    def note(self, amount: float, now: float, waiting: bool) -> None:
        """So much was served. waiting: whether somebody waits for more."""
        self._full.note(amount, now, waiting)
        if self._full.seconds < LEAST:  # nobody asks for it after that
            self._now.note(amount, now, True)
