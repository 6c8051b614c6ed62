"""JSON responses, and the answers to what went wrong."""

from __future__ import annotations

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Send

from headrace.api.body import BodyError
from headrace.api.openai.errors import (
    ApiError,
    engine_failed,
    internal_error,
    invalid_request,
    method_not_allowed,
    not_found,
    overloaded,
    rate_limited,
    shutting_down,
    unavailable,
)
from headrace.dispatch.errors import Overloaded, Refused
from headrace.edge.exchange import Exchange, exchange_of
from headrace.edge.job import EngineFault, EngineRefusal, ServiceEnds
from headrace.fleet.errors import WorkerUnavailable
from headrace.quotas.errors import LimitReached
from headrace.store.errors import DatabaseUnavailable

EXPECTED_FAULTS = (
    ApiError,
    BodyError,
    LimitReached,
    Refused,
    WorkerUnavailable,
    EngineFault,
    EngineRefusal,
    ServiceEnds,
    DatabaseUnavailable,
)
"""Faults that have an answer of their own; any other is a fault of ours."""


def json_response(body: object, status: int = 200) -> Response:
    content = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return Response(content, status, media_type="application/json")


async def send_json(send: Send, content: bytes) -> None:
    """An answer that went well, without a Response around it."""
    length = str(len(content)).encode()
    head = [(b"content-type", b"application/json"), (b"content-length", length)]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": content})


def error_response(error: ApiError, exchange: Exchange) -> Response:
    exchange.note(error)
    body = exchange.wire.error(error, exchange.id)
    return Response(body, error.status, error.headers, media_type="application/json")


def note_fault(exchange: Exchange, fault: Exception, error: ApiError) -> None:
    """Have the log line tell what the caller was told, and which limit or queue it was."""
    match fault:
        case LimitReached():
            limit = fault.limit
            exchange.note(error, limit=limit.name, limit_of=limit.subject)
        case Refused():
            exchange.note(error, reason=fault.reason)
        case _:
            exchange.note(error)


def as_api_error(fault: Exception, request_id: str) -> ApiError:
    """What a caller is told of a fault; no more than the request's id if it is not expected."""
    match fault:
        case ApiError():
            return fault
        case BodyError():
            return invalid_request(fault.message, fault.param)
        case LimitReached():
            return _rate_limited(fault)
        case Overloaded():
            return overloaded(fault.reason, str(fault), fault.retry_after)
        case Refused():
            return unavailable(fault.reason, str(fault), fault.retry_after)
        case WorkerUnavailable():
            return unavailable("no_worker", str(fault), 1.0)
        case DatabaseUnavailable():
            return unavailable("database", fault.brief, 1.0)
        case ServiceEnds():
            return shutting_down()
        case EngineRefusal():
            return invalid_request(f"The request can't be followed: {fault}.")
        case EngineFault():
            return engine_failed(str(fault))
        case _:
            return internal_error(request_id)


def forget_origin(fault: BaseException) -> None:
    """Let go of the frames that a fault, which is dealt with, came through. They hold all that the
    request held, its body too, and some hold the fault itself: such a cycle would wait for the
    garbage collector, which counts objects and not their bytes."""
    link: BaseException | None = fault
    while link is not None:
        link.__traceback__ = None
        link = link.__context__


def _rate_limited(fault: LimitReached) -> ApiError:
    if fault.limit.kind == "budget":
        type = "insufficient_quota"
    else:
        type = "tokens" if "tokens" in fault.limit.name else "requests"
    return rate_limited(str(fault), type, after=fault.after, final=fault.final)


async def answer_router(request: Request, refusal: Exception) -> Response:
    """Exception handler for what the router refuses: unknown paths and wrong methods."""
    assert isinstance(refusal, HTTPException)
    path, exchange = request.url.path, exchange_of(request.scope)
    if refusal.status_code == 405:
        allowed = (refusal.headers or {}).get("Allow", "")
        return error_response(method_not_allowed(request.method, path, allowed), exchange)
    return error_response(not_found(path), exchange)
