"""The endpoints that generate: from an HTTP request to its answer and its charge."""

from __future__ import annotations

from typing import Protocol, TypeVar
from uuid import UUID

import structlog
from msgspec.structs import replace
from starlette.types import Receive, Scope, Send

from headrace.access.price import Price
from headrace.access.principal import Principal
from headrace.dispatch.terms import Terms
from headrace.edge.admission import TURNED_AWAY, Admission
from headrace.edge.aside import Aside
from headrace.edge.charge import Charge
from headrace.edge.connection import Connection, connection_of
from headrace.edge.endpoint import Asked, Endpoint, Reading
from headrace.edge.exchange import exchange_of
from headrace.edge.job import Job, Sink
from headrace.edge.plan import Plan, Planner
from headrace.edge.rate_limits import rate_limit_headers
from headrace.edge.responses import (
    EXPECTED_FAULTS,
    as_api_error,
    forget_origin,
    note_fault,
    send_json,
)
from headrace.edge.service_class import served_class
from headrace.edge.services import Services
from headrace.edge.sinks import StreamSink, WholeSink
from headrace.edge.stream import EventStream
from headrace.quotas.demand import Demand
from headrace.store.ids import uuid7

log = structlog.get_logger("headrace.edge")


class Tiered(Asked, Protocol):
    """What a request for an answer says beside."""

    @property
    def service_tier(self) -> str: ...


R = TypeVar("R", bound=Tiered)


class Dialect(Reading[R], Protocol[R]):
    """One endpoint's way to ask for answers."""

    async def plan(self, planner: Planner, request: R, id: UUID, admission: Admission) -> Plan: ...


class GenerationEndpoint(Endpoint[R]):
    """An endpoint that plans, reserves, charges, runs and answers. Where there is too much work it
    refuses before it plans.

    Whoever leaves early stops the work of their request wherever it is, streaming or not, and
    pays for what was generated until then.
    """

    def __init__(self, services: Services, dialect: Dialect[R], aside: Aside) -> None:
        super().__init__(services, dialect, aside)
        self._dialect = dialect

    async def _serve(
        self, admission: Admission, scope: Scope, receive: Receive, send: Send
    ) -> None:
        services, exchange, principal = self._services, exchange_of(scope), admission.principal
        request, route = await self._routed(admission, scope, receive)
        with route.use as deployment:
            model, id = deployment.model, uuid7()
            exchange.model = model.name
            terms = _terms(principal, request.service_tier, admission.deadline)
            deployment.places.check(terms)
            plan = await self._dialect.plan(deployment.planner, request, id, admission)
            del request  # its texts may be long, and its answer takes time
            admission.claim.release()
            terms = replace(terms, long=model.is_long(plan.longest_prompt))
            price = await services.prices.price(model.name)
            reservation = await services.quotas.reserve(
                principal, id, _demand(plan, terms, price), entered=admission.entered
            )
            standings = [*admission.standings, *reservation.standings]
            exchange.headers.update(rate_limit_headers(standings, exchange.wire))
            job = Job(deployment.places, plan.generations, terms)
            charge = Charge(services.books, services.meter, id, plan, job, price, exchange)
            refused = False
            try:
                await charge.open(principal, model, scope["path"])
                await self._answer(plan, job, charge, connection_of(scope), send)
            except TURNED_AWAY:
                refused = True
                raise
            finally:
                await reservation.settle(charge.consumed(refused=refused))

    async def _answer(
        self, plan: Plan, job: Job, charge: Charge, connection: Connection, send: Send
    ) -> None:
        connection.watch(job.cancel, job.stop)
        try:
            if plan.stream:
                beat = charge.exchange.wire.beat
                stream = EventStream(send, self._services.keepalive, beat)
                await self._stream(plan, job, charge, stream)
                return
            sink = WholeSink(plan)
            await _run(job, sink, charge)
            if not connection.gone:
                await send_json(send, plan.answer.whole(sink.choices(), charge.usage()))
        finally:
            connection.unwatch()

    async def _stream(self, plan: Plan, job: Job, charge: Charge, stream: EventStream) -> None:
        try:
            await _run(job, StreamSink(stream, charge.opening, plan), charge)
            last = plan.answer.ending(charge.usage())
        except Exception as fault:
            if not stream.started:
                raise
            if not isinstance(fault, EXPECTED_FAULTS):
                log.exception("stream_failed", request_id=charge.exchange.id)
            exchange = charge.exchange
            error = as_api_error(fault, exchange.id)
            note_fault(exchange, fault, error)
            forget_origin(fault)
            last = exchange.wire.fault(error, exchange.id)
        finally:
            stream.close()
        if stream.started:
            await stream.end(last)


async def _run(job: Job, sink: Sink, charge: Charge) -> None:
    """The charge is closed when this returns or raises."""
    try:
        await job.run(sink)
    finally:
        await charge.close()


def _demand(plan: Plan, terms: Terms, price: Price | None) -> Demand:
    prompt, output = plan.prompt_tokens, plan.output_tokens
    return Demand(
        prompt_tokens=prompt,
        output_tokens=output,
        bounded=plan.bounded,
        long=terms.long,
        cost=0 if price is None else price.highest_cost(prompt=prompt, completion=output),
    )


def _terms(principal: Principal, tier: str, deadline: float | None) -> Terms:
    tenant = principal.tenant
    return Terms(
        tenant=tenant.id,
        weight=tenant.weight,
        service_class=served_class(tier, tenant.service_class),
        deadline=deadline,
    )
