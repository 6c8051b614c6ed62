"""Fair service between parties of unequal weight: virtual token counters.

Sheng et al., "Fairness in Serving Large Language Models" (OSDI 2024, arXiv:2401.00588), with
weights: each party has a counter of what it was charged, divided by its weight; the smallest is
served; a party that comes back is lifted to where the others are, so that idleness earns no
credit. docs/architecture.md derives how far two parties can be apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable


class Account:
    """What a party was charged, as virtual time: cost by weight. Comes back to the same number
    when all that was charged since its last lift is given back."""

    __slots__ = ("_base", "_charged", "weight")

    def __init__(self, weight: float) -> None:
        self.weight = weight
        self._base = 0.0
        self._charged = 0

    @property
    def time(self) -> float:
        return self._base + self._charged / self.weight

    def charge(self, cost: int) -> None:
        """Less than nothing gives back."""
        self._charged += cost

    def lift(self, time: float) -> None:
        """Let it be no less than this."""
        if self.time < time:
            self._base += time - self.time

    def reweigh(self, weight: float) -> None:
        """Charges so far stay what they were."""
        if weight != self.weight:
            self._base, self._charged, self.weight = self.time, 0, weight


class VirtualTime:
    """Where a group of parties is. now: the smallest counter among those who could be served,
    at its greatest so far."""

    def __init__(self) -> None:
        self.now = 0.0
        self._standing: frozenset[Account] = frozenset()

    def stand(self, accounts: Collection[Account]) -> None:
        """These could be served now. Whoever could not a moment ago is lifted."""
        for account in accounts:
            if account not in self._standing:
                account.lift(self.now)
        self._standing = frozenset(accounts)
        if accounts:
            self.now = max(self.now, min(account.time for account in accounts))

    def would_be(self, account: Account) -> float:
        """Its counter, if it stood now."""
        return account.time if account in self._standing else max(account.time, self.now)

    def work_before(
        self, own: Account, ahead: float, others: Iterable[tuple[Account, float]]
    ) -> float:
        """Cost of all that is served, in turn, before `own` is through with `ahead` of its own.
        others: parties with what each has waiting."""
        end = self.would_be(own) + ahead / own.weight
        work = ahead
        for account, backlog in others:
            behind = (end - self.would_be(account)) * account.weight
            work += min(max(behind, 0.0), backlog)
        return work
