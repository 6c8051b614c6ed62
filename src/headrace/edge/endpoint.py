"""What endpoints about models have in common: who asks, what, and which model it means."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from starlette.types import Receive, Scope, Send

from headrace.api.body import MAX_CONTAINERS, Bounds, TooComplex, check_structure
from headrace.api.openai.errors import ContextLengthExceeded
from headrace.edge.admission import Admission
from headrace.edge.aside import Aside
from headrace.edge.authentication import authenticate
from headrace.edge.body import ClientGone, announced, is_coded, read_body
from headrace.edge.connection import connection_of
from headrace.edge.deadline import deadline_of
from headrace.edge.exchange import exchange_of
from headrace.edge.intake import SMALL_BODY
from headrace.edge.rate_limits import rate_limit_headers
from headrace.edge.responses import EXPECTED_FAULTS
from headrace.edge.services import Route, Services
from headrace.quotas.errors import LimitReached
from headrace.routing.needs import Needs
from headrace.turns.threads import in_one

BODY_BYTES = 1 << 20
"""Of a body, whatever the context: schemas, tools, white space."""

BYTES_A_TOKEN = 64
"""Of a body, beyond BODY_BYTES, for each token of the longest context that is served. Prompts have
4 to 10 bytes a token, with the escapes of JSON."""


BODY_CONTAINERS, CONTAINERS_A_TOKEN = 10_000, 2
"""Arrays and objects of a body, whatever the context, and for each token of it."""

BODY_ITEMS = 131_072
"""Items of an array or object that are neither, unless the longest context has more tokens. A
schema, whatever the context, has fewer."""


class Asked(Protocol):
    """What any request says."""

    @property
    def model(self) -> str: ...


R = TypeVar("R", bound=Asked)


class Reading(Protocol[R]):
    """One endpoint's way to ask. Everything raises ApiError or BodyError."""

    @property
    def prompts(self) -> int:
        """How many contexts the prompts of one request may fill, for the size of its body."""
        ...

    def parse(self, body: bytes) -> R: ...

    def needs(self, request: R) -> Needs: ...


class Endpoint(ABC, Generic[R]):
    """An ASGI application that authenticates, reads and routes, and tells how limits stand when
    it refuses. counted: whatever is asked draws on the limits of requests before it is read; else
    only a large body does."""

    counted = False

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
                services.gate.check()
                async with Admission(
                    principal,
                    deadline_of(scope, self._aside.now()),
                    connection_of(scope),
                    self._aside,
                    services.quotas,
                ) as admission:
                    await self._serve(admission, scope, receive, send)
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
        self, admission: Admission, scope: Scope, receive: Receive, send: Send
    ) -> None: ...

    async def _routed(
        self, admission: Admission, scope: Scope, receive: Receive
    ) -> tuple[R, Route]:
        """What is asked, and the model that it means."""
        services = self._services
        body = await self._read(admission, scope, receive)
        longest = self._longest
        request, needs = await admission.prepare(in_one(lambda: self._parse(body, longest)))
        exchange_of(scope).facts["requested_model"] = request.model[:200]
        route = await services.router.route(
            request.model, admission.principal, needs, admission.deadline
        )
        exchange_of(scope).headers[b"x-headrace-route"] = route.why.encode()
        return request, route

    async def _read(self, admission: Admission, scope: Scope, receive: Receive) -> bytes:
        """The body. A large one counts as a request before it is read, and is read no further
        than a model here could take in its prompt."""
        limit = self._services.max_body_bytes
        useful = BODY_BYTES + BYTES_A_TOKEN * self._longest * self._reading.prompts

        async def grow(size: int) -> None:
            if size > SMALL_BODY:
                await admission.enter()
            if size > useful:
                raise ContextLengthExceeded(self._longest, self._longest + 1, 1, exact=False)
            admission.claim.grow(size)

        if self.counted or announced(scope) > SMALL_BODY or is_coded(scope):
            await admission.enter()
        body = await read_body(scope, receive, limit, grow)
        admission.received(len(body))
        return body

    @property
    def _longest(self) -> int:
        """Tokens of the longest context that is served."""
        return max((model.context_length for model in self._services.models.menu), default=0)

    def _parse(self, body: bytes, longest: int) -> tuple[R, Needs]:
        """longest: tokens of the longest context that is served."""
        bounds = bounds_for(longest, self._reading.prompts)
        if bounds.may_be_passed_by(body):
            try:
                check_structure(body, bounds)
            except TooComplex:
                raise ContextLengthExceeded(longest, longest + 1, 1, exact=False) from None
        request = self._reading.parse(body)
        return request, self._reading.needs(request)


def bounds_for(longest: int, prompts: int) -> Bounds:
    """Beyond which a body is not worth decoding, since its prompts can't have so much. longest:
    tokens of the longest context that is served. prompts: how many contexts they may fill."""
    return Bounds(
        containers=min(MAX_CONTAINERS, BODY_CONTAINERS + CONTAINERS_A_TOKEN * longest * prompts),
        items=max(BODY_ITEMS, longest),
    )
