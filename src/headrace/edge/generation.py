"""The endpoints that generate: from an HTTP request to its answer and its charge."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import UUID

import structlog
from starlette.types import Receive, Scope, Send

from headrace.access.principal import Principal
from headrace.api import sse
from headrace.edge.authentication import authenticate
from headrace.edge.body import ClientGone, read_body
from headrace.edge.charge import Charge
from headrace.edge.exchange import exchange_of
from headrace.edge.job import Job, Sink
from headrace.edge.plan import Plan
from headrace.edge.responses import EXPECTED_FAULTS, as_api_error, json_response
from headrace.edge.services import Services
from headrace.edge.sinks import StreamSink, WholeSink
from headrace.edge.stream import EventStream
from headrace.store.ids import uuid7

log = structlog.get_logger("headrace.edge")

MakePlan = Callable[[bytes, UUID, Principal], Awaitable[Plan]]
"""A body, the charge's id and who asks -> what to generate. Raises ApiError or BodyError."""


class GenerationEndpoint:
    """An ASGI application that authenticates, reads, plans, charges, runs and answers.

    Whoever leaves early stops the work of their request wherever it is, streaming or not, and
    pays for what was generated until then.
    """

    def __init__(self, services: Services, make_plan: MakePlan) -> None:
        self._services = services
        self._make_plan = make_plan

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        services, exchange = self._services, exchange_of(scope)
        principal = await authenticate(scope, services.keys)
        try:
            body = await read_body(scope, receive, services.max_body_bytes)
        except ClientGone:
            return
        id = uuid7()
        plan = await self._make_plan(body, id, principal)
        job = Job(services.places, plan.generations)
        charge = Charge(services.books, id, plan, job, exchange)
        await charge.open(principal, services.model, scope["path"])
        async with _ending_when_gone(receive, job) as gone:
            if plan.stream:
                await self._stream(plan, job, charge, EventStream(send, services.keepalive))
                return
            sink = WholeSink(plan)
            await _run(job, sink, charge)
            if not gone.is_set():
                whole = plan.answer.whole(sink.choices(), charge.usage())
                await json_response(whole)(scope, receive, send)

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
