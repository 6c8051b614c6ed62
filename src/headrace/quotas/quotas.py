"""Reserves what a request may need before its work, and settles what it used after it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol
from uuid import UUID

from headrace.access.principal import Principal
from headrace.quotas.demand import Consumed, Demand
from headrace.quotas.errors import LimitReached
from headrace.quotas.expectation import Expectation
from headrace.quotas.inforce import limits_in_force
from headrace.quotas.limit import Draw, Limit, Standing
from headrace.quotas.period import span_of
from headrace.quotas.refusal import refusal_of, too_large
from headrace.quotas.store import Settlement, Store
from headrace.quotas.tally import QuotaTally
from headrace.store.errors import DatabaseUnavailable

COUNTED = ("request", "place")
"""Of limits in these units every request draws one."""

ANY = Demand(prompt_tokens=0, output_tokens=0, bounded=True)
"""Of a request of which nothing is known yet."""

SEEDINGS = 4
"""Attempts to reserve while budgets have to be asked of the books."""


class Spending(Protocol):
    """What the books know (`ledger.spending`)."""

    async def spent(self, tenant: UUID, key_id: str | None, since: int) -> int:
        """Nano-units of money, of requests since a moment in unix milliseconds. Raises
        DatabaseUnavailable."""
        ...


class Nothing:
    """The reservation of somebody without limits."""

    standings: Sequence[Standing] = ()

    async def settle(self, consumed: Consumed) -> None:
        """Nothing was drawn."""


NOTHING = Nothing()


class Held:
    """What a request holds while it is on its way."""

    def __init__(
        self,
        quotas: Quotas,
        account: UUID,
        id: str,
        demand: Demand,
        standings: Sequence[Standing],
    ) -> None:
        self.standings = standings
        self._quotas = quotas
        self._account = account
        self._id = id
        self._demand = demand
        self._settled = False

    async def settle(self, consumed: Consumed) -> None:
        """Once: to call it again changes nothing, and if the caller is cancelled it goes on."""
        if self._settled:
            return
        self._settled = True
        await self._quotas.settle(self._account, self._id, self._demand, self.standings, consumed)


class Quotas:
    """All limits of a tenant and of its key hold at once, and a request passes all or none.

    spending: asked for what was spent of a budget when the store does not know. now: unix seconds,
    which decide the period of a budget and nothing else.
    """

    def __init__(
        self,
        store: Store,
        spending: Spending,
        tally: QuotaTally,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._spending = spending
        self._tally = tally
        self._now = now
        self._expectation = Expectation()

    async def enter(self, principal: Principal, id: UUID) -> Nothing | Held:
        """Draw on the limits that every request draws on, whatever it turns out to need, before
        there is any work for it. id: nobody else's. Raises LimitReached, and DatabaseUnavailable
        as `reserve`."""
        limits = limits_in_force(principal, False, self._now())
        return await self._hold(principal, id, ANY, [each for each in limits if _is_counted(each)])

    async def reserve(
        self, principal: Principal, id: UUID, demand: Demand, *, entered: bool = False
    ) -> Nothing | Held:
        """id: nobody else's. entered: what `enter` draws was drawn. Raises LimitReached, and
        DatabaseUnavailable where the books must be asked and cannot."""
        limits: Sequence[Limit] = limits_in_force(principal, demand.long, self._now())
        if entered:
            limits = [limit for limit in limits if not _is_counted(limit)]
        return await self._hold(principal, id, demand, limits)

    async def _hold(
        self, principal: Principal, id: UUID, demand: Demand, limits: Sequence[Limit]
    ) -> Nothing | Held:
        if not limits:
            return NOTHING
        tenant = principal.tenant.id
        draws = self._draws(limits, tenant, demand)
        for draw in draws:
            if draw.amount > draw.limit.size and draw.limit.kind != "budget":
                self._count(draw.limit)
                raise too_large(draw, await self.standings(principal))
        standings = await self._draw(principal, id.hex, draws)
        self._tally.hold(standings)
        return Held(self, tenant, id.hex, demand, standings)

    async def standings(self, principal: Principal) -> Sequence[Standing]:
        """How its limits stand, for an answer that reserved nothing. Budgets are left out."""
        limits = limits_in_force(principal, False, self._now())
        rates = [limit for limit in limits if limit.kind == "rate"]
        if not rates:
            return ()
        return (await self._store.look(principal.tenant.id.hex, rates)).standings

    async def settle(
        self,
        tenant: UUID,
        id: str,
        demand: Demand,
        standings: Sequence[Standing],
        consumed: Consumed,
    ) -> None:
        if not demand.bounded and consumed.completion_tokens:
            self._expectation.learn(tenant, consumed.completion_tokens)
        used = consumed.amounts()
        settlements = [Settlement(s.limit, s.amount, used[s.limit.unit]) for s in standings]
        self._tally.settle(settlements)
        await self._store.settle(tenant.hex, id, settlements)

    def _draws(self, limits: Sequence[Limit], tenant: UUID, demand: Demand) -> Sequence[Draw]:
        """Output whose bound the caller didn't set is drawn as expected, and never turned away
        for good."""
        if demand.bounded:
            amounts = demand.amounts(demand.output_tokens)
            return [Draw(limit, amounts[limit.unit]) for limit in limits]
        amounts = demand.amounts(min(self._expectation.of(tenant), demand.output_tokens))
        return [
            Draw(limit, min(limit.size, amounts[limit.unit]))
            if limit.unit == "output_token"
            else Draw(limit, amounts[limit.unit])
            for limit in limits
        ]

    async def _draw(
        self, principal: Principal, id: str, draws: Sequence[Draw]
    ) -> Sequence[Standing]:
        account = principal.tenant.id.hex
        for _ in range(SEEDINGS):
            outcome = await self._store.reserve(account, id, draws)
            if outcome.status == "granted":
                return outcome.standings
            if outcome.status == "refused":
                raise self._refused(outcome.standings)
            for limit in outcome.unseeded:
                await self._seed(principal, limit)
        raise DatabaseUnavailable("what was spent of budgets could not be told to the counters")

    async def _seed(self, principal: Principal, limit: Limit) -> None:
        tenant = principal.tenant
        key_id = principal.key_id if limit.subject == "key" else None
        period = (tenant.limits if key_id is None else principal.limits).budget_period
        since = span_of(period, limit.ends / 1000 - 1).begins
        spent = await self._spending.spent(tenant.id, key_id, since)
        await self._store.seed(tenant.id.hex, limit.counter, spent)

    def _refused(self, standings: Sequence[Standing]) -> LimitReached:
        refusal = refusal_of(standings, self._now())
        self._count(refusal.limit)
        return refusal

    def _count(self, limit: Limit) -> None:
        self._tally.refused[limit.name, limit.subject] += 1


def _is_counted(limit: Limit) -> bool:
    """Every request draws one of it, a long one or not."""
    return limit.unit in COUNTED and not limit.name.startswith("long_")
