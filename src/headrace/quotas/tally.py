"""What quotas did, for metrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class QuotaTally:
    """Numbers that only grow, but for the last two.

    refused: requests by the limit that refused them and whose it was. decided_alone: reservations
    decided by a share of limits, because the store was out of reach; failures: calls to it that
    failed or took too long; outages: times it was given up. alone: whether it is given up now;
    edges: how many share the limits, as far as was known last.
    """

    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    decided_alone: int = 0
    failures: int = 0
    outages: int = 0
    alone: bool = False
    edges: int = 1
