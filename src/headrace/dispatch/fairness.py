"""Fair service between parties of unequal weight: virtual token counters.

Sheng et al., "Fairness in Serving Large Language Models" (OSDI 2024, arXiv:2401.00588), with
weights: each party has a counter of what it was charged, divided by its weight; the smallest is
served; a party that comes back is lifted to where the others are, so that idleness earns no
credit. docs/architecture.md derives how far two parties can be apart.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable


class Account:
    """What a party was charged, as virtual time: cost by weight. time: that, from where it was last
    lifted to; it comes back to the same number when all that was charged since is given back.
    standing: whether it could be served now."""

    __slots__ = ("_base", "_charged", "standing", "time", "weight")

    def __init__(self, weight: float, time: float = 0.0) -> None:
        self.weight = weight
        self.standing = False
        self.time = self._base = time
        self._charged = 0

    def charge(self, cost: int) -> None:
        """Less than nothing gives back."""
        self._charged += cost
        self.time = self._base + self._charged / self.weight

    def lift(self, time: float) -> None:
        """Let it be no less than this."""
        if self.time < time:
            self._base += time - self.time
            self.time = self._base + self._charged / self.weight

    def reweigh(self, weight: float) -> None:
        """Charges so far stay what they were."""
        if weight != self.weight:
            self._base, self._charged, self.weight = self.time, 0, weight


class VirtualTime:
    """Where a group of parties is. now: the smallest counter among those who could be served,
    at its greatest so far, and what was served since, by weight, while none could be."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0.0

    def enter(self, account: Account) -> None:
        """It could be served from now on."""
        if account.time < self.now:
            account.lift(self.now)
        account.standing = True

    def leave(self, account: Account) -> None:
        """It can't be served any more."""
        account.standing = False

    def reach(self, time: float) -> None:
        """The smallest counter of those who could be served is there."""
        if time > self.now:
            self.now = time

    def serve(self, cost: float, weight: float) -> None:
        """So much was served to parties of that weight together, while nobody else waited."""
        self.now += cost / weight

    def stand(self, accounts: Collection[Account], others: Iterable[Account]) -> None:
        """These could be served now, and no others. Whoever could not a moment ago is lifted."""
        for account in others:
            account.standing = False
        least = math.inf
        for account in accounts:
            if not account.standing:
                self.enter(account)
            if account.time < least:
                least = account.time
        if accounts:
            self.reach(least)

    def would_be(self, account: Account) -> float:
        """Its counter, if it could be served now."""
        return account.time if account.standing else max(account.time, self.now)

    def end(self, own: Account, ahead: float) -> float:
        """Where `own` is when it is through with `ahead` of its own."""
        return self.would_be(own) + ahead / own.weight

    def work_before(self, end: float, account: Account, backlog: float) -> float:
        """Cost of what is served to a party that has so much waiting before it is at `end`."""
        behind = (end - self.would_be(account)) * account.weight
        return min(max(behind, 0.0), backlog)
