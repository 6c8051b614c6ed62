"""The endpoints that generate: from an HTTP request to its answer and its charge."""

from __future__ import annotations

import asyncio
from typing import Generic, Protocol, TypeVar
from uuid import UUID

import structlog
from msgspec.structs import replace
from starlette.types import Receive, Scope, Send

from headrace.access.price import Price
from headrace.access.principal import Principal
from headrace.api import sse
from headrace.api.openai.parameters import GenerationParameters
from headrace.api.openai.service_tier import ServiceTier
from headrace.dispatch.errors import Refused
from headrace.dispatch.terms import Terms
from headrace.edge.aside import INLINE_CHARACTERS, Aside
from headrace.edge.authentication import authenticate
from headrace.edge.body import ClientGone, read_body
from headrace.edge.charge import Charge
from headrace.edge.deadline import deadline_of
from headrace.edge.exchange import exchange_of
from headrace.edge.job import Job, Sink
from headrace.edge.plan import Plan, Planner
from headrace.edge.rate_limits import rate_limit_headers
from headrace.edge.responses import EXPECTED_FAULTS, as_api_error, send_json
from headrace.edge.service_class import served_class
from headrace.edge.services import Services
from headrace.edge.sinks import StreamSink, WholeSink
from headrace.edge.stream import EventStream
from headrace.fleet.errors import WorkerUnavailable
from headrace.quotas.demand import Demand
from headrace.quotas.errors import LimitReached
from headrace.routing.needs import Needs
from headrace.store.errors import DatabaseUnavailable
from headrace.store.ids import uuid7

log = structlog.get_logger("headrace.edge")

TURNED_AWAY = (Refused, WorkerUnavailable, DatabaseUnavailable)
"""Faults that are ours and end a request before its work: it counts towards no limit."""

R = TypeVar("R", bound=GenerationParameters)


class Dialect(Protocol[R]):
    """One endpoint's way to ask. Everything raises ApiError or BodyError."""

    def parse(self, body: bytes) -> R: ...

    def needs(self, request: R) -> Needs: ...

    async def plan(self, planner: Planner, request: R, id: UUID, principal: Principal) -> Plan: ...


class GenerationEndpoint(Generic[R]):
    """An ASGI application that authenticates, reads, routes, plans, reserves, charges, runs and
    answers. Where there is too much work it refuses before it plans.

    Whoever leaves early stops the work of their request wherever it is, streaming or not, and
    pays for what was generated until then.
    """

    def __init__(self, services: Services, dialect: Dialect[R], aside: Aside) -> None:
        self._services = services
        self._dialect = dialect
        self._aside = aside

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        services, exchange = self._services, exchange_of(scope)
        principal = await authenticate(scope, services.keys)
        services.meter.meet(principal.tenant.id, principal.tenant.name)
        with services.gate:
            try:
                await self._serve(principal, scope, receive, send)
            except ClientGone:
                return
            except LimitReached as refusal:
                exchange.headers.update(rate_limit_headers(refusal.standings))
                raise
            except EXPECTED_FAULTS:
                if exchange.status is None:  # the limits are told with refusals too
                    standings = await services.quotas.standings(principal)
                    exchange.headers.update(rate_limit_headers(standings))
                raise

    async def _serve(
        self, principal: Principal, scope: Scope, receive: Receive, send: Send
    ) -> None:
        services, exchange = self._services, exchange_of(scope)
        services.gate.check()
        deadline = deadline_of(scope)
        body = await read_body(scope, receive, services.max_body_bytes)
        if len(body) > INLINE_CHARACTERS:  # to parse it costs more than to ask first
            await services.quotas.check(principal)
        request = await self._aside.run(len(body), lambda: self._dialect.parse(body))
        needs = self._dialect.needs(request)
        route = await services.router.route(request.model, principal, needs, deadline)
        exchange.headers["x-headrace-route"] = route.why
        with route.use as deployment:
            model, id = deployment.model, uuid7()
            exchange.model = model.name
            terms = _terms(principal, request.service_tier, deadline)
            deployment.places.check(terms)
            plan = await self._dialect.plan(deployment.planner, request, id, principal)
            terms = replace(terms, long=model.is_long(plan.longest_prompt))
            price = await services.prices.price(model.name)
            reservation = await services.quotas.reserve(principal, _demand(plan, terms, price))
            exchange.headers.update(rate_limit_headers(reservation.standings))
            job = Job(deployment.places, plan.generations, terms)
            charge = Charge(services.books, services.meter, id, plan, job, price, exchange)
            refused = False
            try:
                await charge.open(principal, model, scope["path"])
                await self._answer(plan, job, charge, receive, send)
            except TURNED_AWAY:
                refused = True
                raise
            finally:
                await reservation.settle(charge.consumed(refused=refused))

    async def _answer(
        self, plan: Plan, job: Job, charge: Charge, receive: Receive, send: Send
    ) -> None:
        watching = asyncio.create_task(_cancel_when_gone(receive, job))
        try:
            if plan.stream:
                await self._stream(plan, job, charge, EventStream(send, self._services.keepalive))
                return
            sink = WholeSink(plan)
            await _run(job, sink, charge)
            if not watching.done():
                await send_json(send, plan.answer.whole(sink.choices(), charge.usage()))
        finally:
            watching.cancel()

    async def _stream(self, plan: Plan, job: Job, charge: Charge, stream: EventStream) -> None:
        try:
            await _run(job, StreamSink(stream, plan), charge)
            last = plan.answer.usage(charge.usage()) if plan.include_usage else b""
            last += sse.DONE
        except Exception as fault:
            if not stream.started:
                raise
            if not isinstance(fault, EXPECTED_FAULTS):
                log.exception("stream_failed", request_id=charge.exchange.id)
            last = sse.event(as_api_error(fault, charge.exchange.id).body())
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


async def _cancel_when_gone(receive: Receive, job: Job) -> None:
    """Ends when the client has left, and stops its work."""
    while (await receive())["type"] != "http.disconnect":
        pass
    job.cancel()


def _demand(plan: Plan, terms: Terms, price: Price | None) -> Demand:
    prompt, output = plan.prompt_tokens, plan.output_tokens
    return Demand(
        prompt_tokens=prompt,
        output_tokens=output,
        bounded=plan.bounded,
        long=terms.long,
        cost=0 if price is None else price.highest_cost(prompt=prompt, completion=output),
    )


def _terms(principal: Principal, tier: ServiceTier, deadline: float | None) -> Terms:
    tenant = principal.tenant
    return Terms(
        tenant=tenant.id,
        weight=tenant.weight,
        service_class=served_class(tier, tenant.service_class),
        deadline=deadline,
    )
