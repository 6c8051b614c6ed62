"""What is left of the worker, by a ledger of what it was sent."""

from __future__ import annotations

from collections import Counter

from headrace.access.tenant import ServiceClass
from headrace.dispatch.entry import Entry
from headrace.dispatch.policy import Policies

IN_USE = 30.0
"""Seconds for which what is kept for a class or for long requests stays so after the last."""

LONG_SHARE = 8
"""One place in so many is for long requests."""


class Room:
    """Places, KV cache, and prompts that the worker hasn't computed yet.

    Those who wait do so in the dispatcher, where they can still be ordered: no more prompts are
    sent than keep the worker busy for some steps, and no more tokens than its cache has room for,
    by what requests are expected to generate. The engine copes where that was wrong.

    Long requests have a few places and, while there are any, half the cache to themselves, and
    short ones the other half; either may have all while the other is not in use.
    """

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self.places = 0
        self.tokens: int | None = None
        self.ahead: int | None = None
        self.taken = 0  # the sum of `running`, which is asked for several times a request
        self.running: Counter[ServiceClass] = Counter()
        self.long_running = 0
        self.prefilling = {False: 0, True: 0}  # prompt tokens sent and not computed, by `long`
        self._held = {False: 0, True: 0}
        self._seen: dict[ServiceClass, float] = {}
        self._long_seen = -IN_USE

    def resize(self, places: int, tokens: int | None, ahead: int | None) -> None:
        """tokens: the cache's. ahead: prompt tokens that may be sent before they are computed.
        None where it is not known, and no limit then."""
        self.places, self.tokens, self.ahead = places, tokens, ahead

    @property
    def is_prefilling(self) -> bool:
        """Whether there are prompts to compute."""
        return bool(self.prefilling[False] or self.prefilling[True])

    @property
    def long_places(self) -> int:
        return max(1, self.places // LONG_SHARE)

    def see(self, entry: Entry, now: float) -> None:
        """One came or went."""
        self._seen[entry.service_class] = now
        if entry.long:
            self._long_seen = now

    def floor(self, service_class: ServiceClass) -> int:
        return int(self.places * self._policies[service_class].floor)

    def below_floor(self, service_class: ServiceClass) -> bool:
        return self.running[service_class] < self.floor(service_class)

    def is_above_floor(self, service_class: ServiceClass) -> bool:
        return self.running[service_class] > self.floor(service_class) + 1

    def is_open(self, service_class: ServiceClass, now: float) -> bool:
        """Whether there is a place that isn't kept for others. One always may run."""
        if not self.taken:
            return self.places > 0
        free = self.places - self.taken
        if free <= 0:
            return False
        for other, seen in self._seen.items():
            if other != service_class and now - seen < IN_USE:
                free -= max(0, self.floor(other) - self.running[other])
        return free > 0

    def lane_is_open(self, entry: Entry, aged: bool) -> bool:
        """Whether a long request can be next. One that waited too long for a gap in the cache is
        next without it, and others wait with it."""
        if self.long_running >= self.long_places or self._is_busy(entry):
            return False
        within = self._fits(self._held[True], entry, share=2) or not self.long_running
        return within and (aged or self._fits(self._held[True] + self._held[False], entry))

    def fits(self, entry: Entry, now: float) -> bool:
        """Whether the worker can take it now."""
        if not self.taken:
            return self.places > 0
        if self._is_busy(entry):
            return False
        if self.tokens is None:
            return True
        if self._held[True] + self._held[False] + _need(entry) > self.tokens:
            return False
        shared = not entry.long and now - self._long_seen < IN_USE
        return not shared or not self._held[False] or self._fits(self._held[False], entry, share=2)

    def take(self, entry: Entry) -> None:
        long = entry.long
        self.taken += 1
        self.running[entry.service_class] += 1
        self.long_running += long
        uncached = entry.prompt - entry.cached
        self.prefilling[long] += uncached
        self._held[long] += uncached + entry.expected

    def start(self, entry: Entry) -> None:
        """Its prompt is computed."""
        self.prefilling[entry.long] -= entry.uncached

    def leave(self, entry: Entry, now: float) -> None:
        if not entry.started:
            self.start(entry)
        long = entry.long
        self.taken -= 1
        self.running[entry.service_class] -= 1
        self.long_running -= long
        self._held[long] -= _need(entry)
        self.see(entry, now)

    def _is_busy(self, entry: Entry) -> bool:
        return self.ahead is not None and self.prefilling[entry.long] >= self.ahead

    def _fits(self, held: int, entry: Entry, share: int = 1) -> bool:
        return self.tokens is None or held + _need(entry) <= self.tokens // share


def _need(entry: Entry) -> int:
    return entry.prompt - entry.cached + entry.expected
