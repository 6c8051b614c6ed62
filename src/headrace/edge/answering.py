"""An answer in the API's shape, whatever goes wrong."""

from __future__ import annotations

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.edge.exchange import exchange_of
from headrace.edge.responses import (
    EXPECTED_FAULTS,
    as_api_error,
    error_response,
    forget_origin,
    note_fault,
)

log = structlog.get_logger("headrace.edge")


class Answering:
    """Pure ASGI around an application that raises."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except Exception as fault:
            exchange = exchange_of(scope)
            if not isinstance(fault, EXPECTED_FAULTS):
                log.exception("request_failed", request_id=exchange.id, path=scope["path"])
            error = as_api_error(fault, exchange.id)
            note_fault(exchange, fault, error)
            if exchange.status is not None:
                raise  # the head is sent: all that is left is to cut the connection
            forget_origin(fault)
            await error_response(error, exchange)(scope, receive, send)
