"""How much tenants let be generated when they do not say."""

from __future__ import annotations

from collections import OrderedDict
from uuid import UUID

FIRST = 256.0
WEIGHT = 0.05
"""Of the latest request in the mean."""

TENANTS = 10_000


class Expectation:
    """An exponential mean of the output of a tenant's requests, on this edge."""

    def __init__(self) -> None:
        self._means: OrderedDict[UUID, float] = OrderedDict()

    def of(self, tenant: UUID) -> int:
        """Tokens."""
        return round(self._means.get(tenant, FIRST))

    def learn(self, tenant: UUID, tokens: int) -> None:
        mean = self._means.pop(tenant, FIRST)
        self._means[tenant] = mean + WEIGHT * (tokens - mean)
        if len(self._means) > TENANTS:
            self._means.popitem(last=False)
