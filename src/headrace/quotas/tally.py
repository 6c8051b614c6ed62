"""What quotas did, for metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.observe.few import Few
from headrace.quotas.limit import Limit, Standing
from headrace.quotas.store import Settlement


@dataclass(slots=True)
class QuotaTally:
    """Numbers that only grow, but for `held` and the last two.

    refused: requests by the limit that refused them and whose it was. By tenant and limit, in the
    limit's own unit: reserved, by what is settled by now; used of that; held, by what is not yet
    settled; places are held, never used. decided_alone: reservations
    decided by a share of limits, because the store was out of reach; failures: calls to it that
    failed or took too long; outages: times it was given up. alone: whether it is given up now;
    edges: how many share the limits, as far as was known last.
    """

    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    reserved: Counter[tuple[str, str]] = field(default_factory=Counter)
    used: Counter[tuple[str, str]] = field(default_factory=Counter)
    held: Counter[tuple[str, str]] = field(default_factory=Counter)
    tenants: Few = field(default_factory=Few)
    decided_alone: int = 0
    failures: int = 0
    outages: int = 0
    alone: bool = False
    edges: int = 1

    def hold(self, standings: Sequence[Standing]) -> None:
        """A reservation was made."""
        for standing in standings:
            if standing.limit.subject == "tenant":
                self.held[self._labels(standing.limit)] += standing.amount

    def settle(self, settlements: Sequence[Settlement]) -> None:
        """It was settled."""
        for settlement in settlements:
            if settlement.limit.subject == "tenant":
                labels = self._labels(settlement.limit)
                self.held[labels] -= settlement.drawn
                if settlement.limit.kind != "slots":
                    self.reserved[labels] += settlement.drawn
                    self.used[labels] += settlement.used

    def _labels(self, limit: Limit) -> tuple[str, str]:
        return self.tenants.label(limit.whose), limit.name
