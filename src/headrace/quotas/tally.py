"""What quotas did, for metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.observe.few import Few
from headrace.quotas.limit import Limit, Standing
from headrace.quotas.store import Settlement


@dataclass(slots=True)
class Flow:
    """Of one tenant's limit, in the limit's unit. reserved: by what is settled by now; used: of
    that, never of places; held: by what is not yet settled."""

    reserved: int = 0
    used: int = 0
    held: int = 0


@dataclass(slots=True)
class QuotaTally:
    """refused: requests by the limit that refused them and whose it was. flows: by tenant and
    limit. decided_alone: reservations decided by a share of limits, because the store was out of
    reach; failures: calls to it that failed or took too long; outages: times it was given up.
    alone: whether it is given up now; edges: how many share the limits, as far as was known last.
    """

    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    flows: dict[tuple[str, str], Flow] = field(default_factory=dict)
    tenants: Few = field(default_factory=Few)
    decided_alone: int = 0
    failures: int = 0
    outages: int = 0
    alone: bool = False
    edges: int = 1

    def hold(self, standings: Sequence[Standing]) -> None:
        """A reservation was made."""
        for standing in standings:
            limit = standing.limit
            if limit.subject == "tenant":
                flow = self._flow(limit)
                flow.held += standing.amount

    def settle(self, settlements: Sequence[Settlement]) -> None:
        """It was settled."""
        for settlement in settlements:
            limit, drawn = settlement.limit, settlement.drawn
            if limit.subject == "tenant":
                flow = self._flow(limit)
                flow.held -= drawn
                if limit.kind != "slots":
                    flow.reserved += drawn
                    flow.used += settlement.used

    def _flow(self, limit: Limit) -> Flow:
        """Its own, or that of all who came too late for one."""
        own = self.flows.get((limit.whose, limit.name))
        if own is not None:
            return own
        return self.flows.setdefault((self.tenants.label(limit.whose), limit.name), Flow())
