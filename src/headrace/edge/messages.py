"""Anthropic's endpoints: `POST /v1/messages` and `POST /v1/messages/count_tokens`."""

from __future__ import annotations

from typing import TypeVar
from uuid import UUID

import msgspec
from starlette.types import Receive, Scope, Send

from headrace.api.anthropic.message import TokenCount
from headrace.api.anthropic.request import (
    CountRequest,
    MessagesRequest,
    parse_count_request,
    parse_messages_request,
)
from headrace.api.anthropic.thinking import ThinkingAdaptive, ThinkingEnabled
from headrace.api.anthropic.version import HEADER, check_version
from headrace.edge.admission import Admission
from headrace.edge.aside import Aside
from headrace.edge.dialects import wishes_of
from headrace.edge.endpoint import Asked, Endpoint
from headrace.edge.exchange import exchange_of
from headrace.edge.generation import GenerationEndpoint
from headrace.edge.headers import header
from headrace.edge.plan import Plan, Planner
from headrace.edge.rate_limits import rate_limit_headers
from headrace.edge.responses import send_json
from headrace.edge.services import Route, Services
from headrace.routing.needs import Needs

R = TypeVar("R", bound=Asked)


class Counting:
    """How to ask for a count: a `Reading`."""

    prompts = 1

    def parse(self, body: bytes) -> CountRequest:
        return parse_count_request(body)

    def needs(self, request: CountRequest) -> Needs:
        return _needs(request)


class Messages:
    """How to ask for a message: a `Dialect`."""

    prompts = 1

    def parse(self, body: bytes) -> MessagesRequest:
        return parse_messages_request(body)

    def needs(self, request: MessagesRequest) -> Needs:
        return _needs(request, request.max_tokens)

    async def plan(
        self, planner: Planner, request: MessagesRequest, id: UUID, admission: Admission
    ) -> Plan:
        return await planner.messages(request, id, admission)


class Versioned(Endpoint[R]):
    """An endpoint for callers of the versions that `check_version` knows."""

    async def _routed(
        self, admission: Admission, scope: Scope, receive: Receive
    ) -> tuple[R, Route]:
        check_version(header(scope, HEADER.encode()))
        return await super()._routed(admission, scope, receive)


class MessagesEndpoint(Versioned[MessagesRequest], GenerationEndpoint[MessagesRequest]):
    def __init__(self, services: Services, aside: Aside) -> None:
        GenerationEndpoint.__init__(self, services, Messages(), aside)


class CountEndpoint(Versioned[CountRequest]):
    """Tells how many tokens a prompt has. It takes a model's tokenizer and no engine. It is
    charged nothing, and counts towards limits of requests and towards no other."""

    counted = True

    def __init__(self, services: Services, aside: Aside) -> None:
        super().__init__(services, Counting(), aside)

    async def _serve(
        self, admission: Admission, scope: Scope, receive: Receive, send: Send
    ) -> None:
        exchange = exchange_of(scope)
        request, route = await self._routed(admission, scope, receive)
        with route.use as deployment:
            exchange.model = deployment.model.name
            ids = await deployment.planner.message_ids(request, admission)
        standings = await self._services.quotas.standings(admission.principal)
        exchange.headers.update(rate_limit_headers(standings, exchange.wire))
        await send_json(send, msgspec.json.encode(TokenCount(len(ids))))


def _needs(request: CountRequest, tokens: int = 0) -> Needs:
    """Raises BodyError."""
    return Needs(
        tools=request.calls is not None,
        reasoning=isinstance(request.thinking, ThinkingEnabled | ThinkingAdaptive),
        tokens=tokens,
        wishes=wishes_of(request.route),
    )
