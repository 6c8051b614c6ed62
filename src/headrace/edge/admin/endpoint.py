"""One path of the administration API: who asks, what for, what was done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from headrace.access.errors import AccessError, AlreadyExists, NotFound
from headrace.access.principal import Principal
from headrace.api.body import BodyError, FieldReader, QueryReader, split_fields
from headrace.api.openai.errors import (
    ApiError,
    conflict,
    invalid_request,
    no_such,
    rate_limited,
    unavailable,
)
from headrace.api.openapi import Operation
from headrace.edge.authentication import ADMIN, authenticate
from headrace.edge.body import ClientGone, read_body
from headrace.edge.connection import connection_of
from headrace.edge.responses import json_response
from headrace.edge.services import Keys
from headrace.edge.watched import watched
from headrace.store.errors import ReportTooLong, StoreError, TooManyReports

MAX_BODY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request that is understood. path: parameters in it; query, body: structs, if the operation
    has them."""

    principal: Principal
    path: Mapping[str, str]
    query: Any
    body: Any

    @property
    def actor(self) -> str:
        """As the audit log names them."""
        return f"key:{self.principal.key_id}"


Act = Callable[[Ask], Awaitable[object]]
"""Raises ApiError, AccessError or whatever else has an answer of its own."""


class NoQuery(msgspec.Struct):
    """Of operations that have no parameters."""


class Method:
    """An operation and what does it."""

    def __init__(self, operation: Operation, act: Act) -> None:
        body = operation.body
        self._act = act
        self._status = min(operation.answers)
        self._query = QueryReader(operation.query or NoQuery)
        self._body = FieldReader(body.struct, null_is_absent=body.null_is_absent) if body else None

    async def answer(self, request: Request, principal: Principal) -> tuple[object, int]:
        ask = Ask(
            principal=principal,
            path=request.path_params,
            query=self._query.read(request.query_params.multi_items()),
            body=await self._read(request),
        )
        try:
            return await self._act(ask), self._status
        except (AccessError, TooManyReports, ReportTooLong) as fault:
            raise _refusal(fault) from None

    async def _read(self, request: Request) -> msgspec.Struct | None:
        body = await read_body(request.scope, request.receive, MAX_BODY_BYTES)
        if self._body is not None:
            return self._body.read(split_fields(body))
        if body.strip() not in (b"", b"{}"):
            raise BodyError("This request takes no body.")
        return None


class AdminEndpoint:
    """An ASGI application of a path's methods. A key without the scope is refused before
    anything is read."""

    def __init__(self, keys: Keys, methods: Mapping[str, Method]) -> None:
        self._keys = keys
        self._methods = methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal = await authenticate(scope, self._keys, ADMIN)
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        answer = self._methods[method].answer(Request(scope, receive), principal)
        try:
            body, status = await watched(asyncio.ensure_future(answer), connection_of(scope))
        except ClientGone:
            return
        await json_response(body, status)(scope, receive, send)


def _refusal(fault: AccessError | StoreError) -> ApiError:
    text = str(fault)
    message = f"{text[:1].upper()}{text[1:]}."
    match fault:
        case NotFound():
            return no_such(message)
        case AlreadyExists():
            return conflict(message)
        case TooManyReports():
            return rate_limited(f"{message} Please try again.", "requests", after=1000, final=False)
        case ReportTooLong():
            advice = "ask for one tenant, or for a shorter time with since"
            return unavailable("report_too_long", f"the report was ended: {text}; {advice}", 1.0)
        case _:
            return invalid_request(message)
