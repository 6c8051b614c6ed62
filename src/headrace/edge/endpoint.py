"""What endpoints about models have in common: who asks, what, and which model it means."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from starlette.types import Receive, Scope, Send

from headrace.access.principal import Principal
from headrace.edge.aside import INLINE_CHARACTERS, Aside
from headrace.edge.authentication import authenticate
from headrace.edge.body import ClientGone, read_body
from headrace.edge.deadline import deadline_of
from headrace.edge.exchange import exchange_of
from headrace.edge.rate_limits import rate_limit_headers
from headrace.edge.responses import EXPECTED_FAULTS
from headrace.edge.services import Route, Services
from headrace.quotas.errors import LimitReached
from headrace.routing.needs import Needs


class Asked(Protocol):
    """What any request says."""

    @property
    def model(self) -> str: ...


R = TypeVar("R", bound=Asked)


class Reading(Protocol[R]):
    """One endpoint's way to ask. Everything raises ApiError or BodyError."""

    def parse(self, body: bytes) -> R: ...

    def needs(self, request: R) -> Needs: ...


class Endpoint(ABC, Generic[R]):
    """An ASGI application that authenticates, reads and routes, and tells how limits stand when
    it refuses."""

    def __init__(self, services: Services, reading: Reading[R], aside: Aside) -> None:
        self._services = services
        self._reading = reading
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
                exchange.headers.update(rate_limit_headers(refusal.standings, exchange.wire))
                raise
            except EXPECTED_FAULTS:
                if exchange.status is None:  # the limits are told with refusals too
                    standings = await services.quotas.standings(principal)
                    exchange.headers.update(rate_limit_headers(standings, exchange.wire))
                raise

    @abstractmethod
    async def _serve(
        self, principal: Principal, scope: Scope, receive: Receive, send: Send
    ) -> None: ...

    async def _routed(
        self, principal: Principal, scope: Scope, receive: Receive
    ) -> tuple[R, float | None, Route]:
        """What is asked, until when (unix seconds), and the model that it means."""
        services = self._services
        services.gate.check()
        deadline = deadline_of(scope)
        body = await read_body(scope, receive, services.max_body_bytes)
        if len(body) > INLINE_CHARACTERS:  # to parse it costs more than to ask first
            await services.quotas.check(principal)
        request = await self._aside.run(len(body), lambda: self._reading.parse(body))
        exchange_of(scope).facts["requested_model"] = request.model[:200]
        needs = self._reading.needs(request)
        route = await services.router.route(request.model, principal, needs, deadline)
        exchange_of(scope).headers[b"x-headrace-route"] = route.why.encode()
        return request, deadline, route
