"""The endpoints that generate: from an HTTP request to its answer and its charge."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Generic, Protocol, TypeVar
from uuid import UUID

import structlog
from starlette.types import Receive, Scope, Send

from headrace.access.price import Price
from headrace.access.principal import Principal
from headrace.api import sse
from headrace.api.openai.parameters import GenerationParameters
from headrace.api.openai.service_tier import ServiceTier
from headrace.dispatch.errors import Refused
from headrace.dispatch.terms import Terms
from headrace.edge.aside import Aside
from headrace.edge.authentication import authenticate
from headrace.edge.body import ClientGone, read_body
from headrace.edge.charge import Charge
from headrace.edge.deadline import deadline_of
from headrace.edge.exchange import Exchange, exchange_of
from headrace.edge.job import Job, Sink
from headrace.edge.plan import Plan, Planner
from headrace.edge.rate_limits import rate_limit_headers
from headrace.edge.responses import EXPECTED_FAULTS, as_api_error, json_response
from headrace.edge.service_class import served_class
from headrace.edge.services import Reservation, Services
from headrace.edge.sinks import StreamSink, WholeSink
from headrace.edge.stream import EventStream
from headrace.fleet.errors import WorkerUnavailable
from headrace.quotas.demand import Demand
from headrace.quotas.errors import LimitReached
from headrace.routing.needs import Needs
from headrace.store.errors import DatabaseUnavailable
from headrace.store.ids import uuid7

log = structlog.get_logger("headrace.edge")

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
        principal = await authenticate(scope, self._services.keys)
        self._services.meter.meet(principal.tenant.id, principal.tenant.name)
        with contextlib.ExitStack() as held:
            held.enter_context(self._services.gate.counting())
            await self._serve(principal, scope, receive, send, held)

    async def _serve(
        self,
        principal: Principal,
        scope: Scope,
        receive: Receive,
        send: Send,
        held: contextlib.ExitStack,
    ) -> None:
        """held: keeps the model in memory until the end."""
        services, exchange = self._services, exchange_of(scope)
        async with self._telling_limits(principal, exchange):
            services.gate.check()
            deadline = deadline_of(scope)
            try:
                body = await read_body(scope, receive, services.max_body_bytes)
            except ClientGone:
                return
            request = await self._aside.run(len(body), lambda: self._dialect.parse(body))
            needs = self._dialect.needs(request)
            route = await services.router.route(request.model, principal, needs, deadline)
            exchange.headers["x-headrace-route"] = route.why
            id, deployment = uuid7(), held.enter_context(route.use)
            exchange.model = deployment.model.name
            terms = _terms(principal, request.service_tier, deadline)
            deployment.places.check(terms)
            plan = await self._dialect.plan(deployment.planner, request, id, principal)
            long = deployment.model.is_long(plan.longest_prompt)
            price = await services.prices.price(deployment.model.name)
            demand = _demand(plan, long, price)
            reservation = await services.quotas.reserve(principal, demand)
        exchange.headers.update(rate_limit_headers(reservation.standings))
        job = Job(deployment.places, plan.generations, replace(terms, long=long))
        charge = Charge(services.books, services.meter, id, plan, job, price, exchange)
        async with _settling(reservation, charge):
            await charge.open(principal, deployment.model, scope["path"])
            async with _ending_when_gone(receive, job) as gone:
                if plan.stream:
                    await self._stream(plan, job, charge, EventStream(send, services.keepalive))
                    return
                sink = WholeSink(plan)
                await _run(job, sink, charge)
                if not gone.is_set():
                    whole = plan.answer.whole(sink.choices(), charge.usage())
                    await json_response(whole)(scope, receive, send)

    @contextlib.asynccontextmanager
    async def _telling_limits(
        self, principal: Principal, exchange: Exchange
    ) -> AsyncIterator[None]:
        """The limits' headers go out with refusals too."""
        try:
            yield
        except LimitReached as refusal:
            exchange.headers.update(rate_limit_headers(refusal.standings))
            raise
        except EXPECTED_FAULTS:
            standings = await self._services.quotas.standings(principal)
            exchange.headers.update(rate_limit_headers(standings))
            raise

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


def _demand(plan: Plan, long: bool, price: Price | None) -> Demand:
    prompt, output = plan.prompt_tokens, plan.output_tokens
    return Demand(
        prompt_tokens=prompt,
        output_tokens=output,
        bounded=plan.bounded,
        long=long,
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


@contextlib.asynccontextmanager
async def _settling(reservation: Reservation, charge: Charge) -> AsyncIterator[None]:
    """The reservation is settled on every way out."""
    refused = False
    try:
        yield
    except (Refused, WorkerUnavailable, DatabaseUnavailable):
        refused = True
        raise
    finally:
        await reservation.settle(charge.consumed(refused=refused))


@contextlib.asynccontextmanager
async def _ending_when_gone(receive: Receive, job: Job) -> AsyncIterator[asyncio.Event]:
    """Cancel the job when the client leaves; the event says that it did."""
    gone = asyncio.Event()

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.set()
        job.cancel()

    watching = asyncio.create_task(watch())
    try:
        yield gone
    finally:
        watching.cancel()
