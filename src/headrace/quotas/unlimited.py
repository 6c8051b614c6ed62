"""No quotas at all."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.access.principal import Principal
from headrace.quotas.demand import Consumed, Demand


class NothingHeld:
    def headers(self) -> Mapping[str, str]:
        return {}

    async def settle(self, consumed: Consumed) -> None:
        """Nothing was taken."""


class Unlimited:
    """Lets everything pass."""

    async def reserve(self, principal: Principal, demand: Demand) -> NothingHeld:
        return NothingHeld()
