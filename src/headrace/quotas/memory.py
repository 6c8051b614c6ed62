"""Counters in memory, of a service that has one edge."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headrace.access.limits import Kind
from headrace.quotas.limit import MINUTE, Draw, Level, Limit
from headrace.quotas.store import Outcome, Settlement, outcome_of

FORGET_AFTER = 3_600_000
"""Milliseconds after which a budget that nobody draws from is asked of the books again."""


@dataclass(slots=True)
class Counter:
    """As it was `at` that moment. rate: by which a bucket empties in a minute. kept: of a bucket,
    what is in it, MINUTE for each; of a budget, what was spent, None if that is not known.
    held: of slots and budgets, by what is on its way."""

    kind: Kind
    rate: int
    kept: int | None
    at: int
    held: int = 0

    @property
    def level(self) -> Level | None:
        return None if self.kept is None else Level(self.kept + self.held, self.held)

    def come_to(self, now: int, rate: int) -> None:
        """The bucket has emptied by `rate` since. What was spent of a budget that nobody drew from
        for long is not known any more."""
        self.rate = rate
        if self.kind == "rate" and self.kept:
            self.kept = max(0, self.kept - max(0, now - self.at) * rate)
        elif self.kind == "budget" and self.is_nothing(now):
            self.kept = None
        self.at = now

    def is_nothing(self, now: int) -> bool:
        """Whether it is as if it had never been."""
        if self.kind == "rate":
            return (self.kept or 0) <= (now - self.at) * self.rate
        return not self.held and (self.kind == "slots" or now - self.at > FORGET_AFTER)

    def draw(self, amount: int) -> None:
        if self.kind != "rate":
            self.held += amount
        elif self.kept is not None:
            self.kept += amount * MINUTE

    def settle(self, drawn: int, used: int) -> None:
        if self.kind != "rate":
            self.held -= drawn
            if self.kept is not None:
                self.kept += used
        elif self.kept is not None:
            self.kept = max(0, self.kept + (used - drawn) * MINUTE)


def monotonic_milliseconds() -> int:
    return time.monotonic_ns() // 1_000_000


@dataclass(slots=True)
class MemoryStore:
    """`store.Store` on one event loop: no call ever waits, so each is atomic. A call costs the same
    however many counters there are."""

    now: Callable[[], int] = monotonic_milliseconds
    _counters: OrderedDict[tuple[str, str], Counter] = field(default_factory=OrderedDict)
    """By account and name, the ones first that were used longest ago."""
    _held: set[str] = field(default_factory=set)

    async def reserve(
        self, account: str, id: str, draws: Sequence[Draw], *, forced: bool = False
    ) -> Outcome:
        now = self.now()
        self._sweep(now, 2 * len(draws))
        counters = [self._counter(account, draw.limit, now) for draw in draws]
        if id not in self._held:
            outcome = outcome_of(draws, [counter.level for counter in counters], "refused")
            fits = outcome.status != "unseeded" and all(s.fits for s in outcome.standings)
            if not forced and not fits:
                return outcome
            self._held.add(id)
            for counter, draw in zip(counters, draws, strict=True):
                counter.draw(draw.amount)
        return outcome_of(draws, [counter.level for counter in counters], "granted")

    async def settle(self, account: str, id: str, settlements: Sequence[Settlement]) -> None:
        if id not in self._held:
            return
        self._held.remove(id)
        now = self.now()
        for settlement in settlements:
            counter = self._counter(account, settlement.limit, now)
            counter.settle(settlement.drawn, settlement.used)

    async def seed(self, account: str, counter: str, spent: int) -> None:
        now = self.now()
        found = self._counters.setdefault((account, counter), Counter("budget", 0, None, now))
        if found.kept is None:
            found.kept = spent

    async def look(self, account: str, limits: Sequence[Limit]) -> Outcome:
        now = self.now()
        self._sweep(now, 2 * len(limits))
        levels = [self._counter(account, limit, now).level for limit in limits]
        return outcome_of([Draw(limit, 0) for limit in limits], levels, "granted")

    def forget_spent(self) -> None:
        """Ask the books again for what was spent."""
        for counter in self._counters.values():
            if counter.kind == "budget":
                counter.kept = None

    def __len__(self) -> int:
        """Reservations, and counters that they or what was used keep from zero."""
        self._drop(self.now())
        kept = sum(1 for c in self._counters.values() if c.held or c.kind == "rate")
        return kept + len(self._held)

    def _counter(self, account: str, limit: Limit, now: int) -> Counter:
        """Brought up to this moment."""
        key = account, limit.counter
        counter = self._counters.get(key)
        if counter is None:
            nothing = None if limit.kind == "budget" else 0
            counter = self._counters[key] = Counter(limit.kind, limit.rate, nothing, now)
            return counter
        self._counters.move_to_end(key)
        if counter.at != now:
            counter.come_to(now, limit.rate)
        return counter

    def _sweep(self, now: int, most: int) -> None:
        """Look at the `most` counters that were used longest ago, and forget those that are as if
        they had never been. A call looks at twice as many as it may make, so there are never many
        more counters than were used lately."""
        for _ in range(min(most, len(self._counters))):
            key, counter = next(iter(self._counters.items()))
            if counter.is_nothing(now):
                del self._counters[key]
            else:
                self._counters.move_to_end(key)

    def _drop(self, now: int) -> None:
        """Forget all that is as if it had never been."""
        for key in [key for key, c in self._counters.items() if c.is_nothing(now)]:
            del self._counters[key]
