"""Counters in memory, of a service that has one edge."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headrace.quotas.limit import MINUTE, Draw, Level, Limit
from headrace.quotas.store import Outcome, Settlement, outcome_of

FORGET_AFTER = 3_600_000
"""Milliseconds after which a budget that nobody draws from is asked of the books again."""

Counter = tuple[str, str]
"""Account and name."""


@dataclass(slots=True)
class Bucket:
    """used: as it was `at` that moment, when it filled by `rate` a minute."""

    used: int
    rate: int
    at: int


@dataclass(slots=True)
class Purse:
    """spent: nano-units, None if it is not known; held: for what is on its way."""

    spent: int | None = None
    held: int = 0
    at: int = 0


def monotonic_milliseconds() -> int:
    return time.monotonic_ns() // 1_000_000


@dataclass(slots=True)
class MemoryStore:
    """`store.Store` on one event loop: no call ever waits, so each is atomic."""

    now: Callable[[], int] = monotonic_milliseconds
    _buckets: dict[Counter, Bucket] = field(default_factory=dict)
    _slots: dict[Counter, int] = field(default_factory=dict)
    _purses: dict[Counter, Purse] = field(default_factory=dict)
    _held: dict[str, None] = field(default_factory=dict)
    _sweep_at: int = 1024

    async def reserve(
        self, account: str, id: str, draws: Sequence[Draw], *, forced: bool = False
    ) -> Outcome:
        now = self.now()
        outcome = self._outcome(account, draws, now)
        if id not in self._held:
            if outcome.status == "unseeded" and not forced:
                return outcome
            if not forced and not all(standing.fits for standing in outcome.standings):
                return Outcome("refused", outcome.standings)
            self._held[id] = None
            self._sweep(now)
            for draw in draws:
                self._draw(account, draw, now)
            return Outcome("granted", [each.drawn() for each in outcome.standings])
        return Outcome("granted", outcome.standings)

    async def settle(self, account: str, id: str, settlements: Sequence[Settlement]) -> None:
        if id not in self._held:
            return
        del self._held[id]
        now = self.now()
        for settlement in settlements:
            limit, drawn, used = settlement.limit, settlement.drawn, settlement.used
            key = (account, limit.counter)
            if limit.kind == "rate":
                bucket = self._bucket(key, limit.rate, now)
                bucket.used = max(0, bucket.used + (used - drawn) * MINUTE)
            elif limit.kind == "slots":
                self._slots[key] -= drawn
                if self._slots[key] <= 0:
                    del self._slots[key]
            else:
                purse = self._purses[key]
                purse.held -= drawn
                purse.at = now
                if purse.spent is not None:
                    purse.spent += used

    async def seed(self, account: str, counter: str, spent: int) -> None:
        purse = self._purse((account, counter), self.now())
        if purse.spent is None:
            purse.spent = spent

    async def look(self, account: str, limits: Sequence[Limit]) -> Outcome:
        return self._outcome(account, [Draw(limit, 0) for limit in limits], self.now())

    def forget_spent(self) -> None:
        """Ask the books again for what was spent."""
        for purse in self._purses.values():
            purse.spent = None

    def __len__(self) -> int:
        """Counters that are not at zero."""
        now = self.now()
        self._drop(now)
        purses = sum(1 for purse in self._purses.values() if purse.held)
        return len(self._buckets) + len(self._slots) + purses + len(self._held)

    def _outcome(self, account: str, draws: Sequence[Draw], now: int) -> Outcome:
        levels = [self._level(account, draw.limit, now) for draw in draws]
        return outcome_of(draws, levels, "granted")

    def _level(self, account: str, limit: Limit, now: int) -> Level | None:
        key = (account, limit.counter)
        if limit.kind == "rate":
            bucket = self._buckets.get(key)
            return Level(0 if bucket is None else _drained(bucket, limit.rate, now), 0)
        if limit.kind == "slots":
            count = self._slots.get(key, 0)
            return Level(count, count)
        purse = self._purse(key, now)
        return None if purse.spent is None else Level(purse.spent + purse.held, purse.held)

    def _draw(self, account: str, draw: Draw, now: int) -> None:
        limit, amount = draw.limit, draw.amount
        key = (account, limit.counter)
        if not amount:
            return
        if limit.kind == "rate":
            self._bucket(key, limit.rate, now).used += amount * MINUTE
        elif limit.kind == "slots":
            self._slots[key] = self._slots.get(key, 0) + amount
        else:
            self._purse(key, now).held += amount

    def _bucket(self, key: Counter, rate: int, now: int) -> Bucket:
        """Brought up to this moment."""
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = Bucket(0, rate, now)
        else:
            bucket.used, bucket.rate, bucket.at = _drained(bucket, rate, now), rate, now
        return bucket

    def _purse(self, key: Counter, now: int) -> Purse:
        purse = self._purses.get(key)
        if purse is None or (not purse.held and now - purse.at > FORGET_AFTER):
            purse = self._purses[key] = Purse()
        purse.at = now
        return purse

    def _sweep(self, now: int) -> None:
        """Once in a while, so that it costs each call next to nothing."""
        if len(self._buckets) + len(self._purses) >= self._sweep_at:
            self._drop(now)
            self._sweep_at = max(1024, 2 * (len(self._buckets) + len(self._purses)))

    def _drop(self, now: int) -> None:
        """What is as if it had never been."""
        for key in [k for k, b in self._buckets.items() if not _drained(b, b.rate, now)]:
            del self._buckets[key]
        idle = now - FORGET_AFTER
        for key in [k for k, p in self._purses.items() if not p.held and p.at < idle]:
            del self._purses[key]


def _drained(bucket: Bucket, rate: int, now: int) -> int:
    return max(0, bucket.used - max(0, now - bucket.at) * rate)
