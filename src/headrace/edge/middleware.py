"""Around every request: its id, its log line, and an answer when something breaks."""

from __future__ import annotations

import time
from collections.abc import Mapping

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.api.openai.errors import internal_error
from headrace.edge.exchange import begin_exchange
from headrace.edge.responses import error_response
from headrace.observe.meter import Meter

log = structlog.get_logger("headrace.edge")

POLLED = ("/healthz", "/readyz", "/metrics")
"""Paths that balancers and Prometheus ask for all the time."""

CLIENT_GONE = 499
"""What the log shows where the client left before there was a status."""


class ExchangeMiddleware:
    """Pure ASGI: a stream pays one comparison per chunk for it. endpoints: the paths of routes, by
    what they lead to, under which requests are counted."""

    def __init__(self, app: ASGIApp, meter: Meter, endpoints: Mapping[object, str]) -> None:
        self._app = app
        self._meter = meter
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = begin_exchange(scope)
        status = CLIENT_GONE
        self._meter.in_flight += 1

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"x-request-id", exchange.id.encode()),
                    *((name.encode(), value.encode()) for name, value in exchange.headers.items()),
                ]
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except Exception:
            log.exception("request_failed", request_id=exchange.id, path=scope["path"])
            if status != CLIENT_GONE:
                raise  # the head is sent: all that is left is to cut the connection
            await error_response(internal_error(exchange.id))(scope, receive, send_with_id)
        finally:
            seconds = time.perf_counter() - exchange.arrived
            endpoint = self._endpoints.get(scope.get("endpoint"), "")
            self._meter.in_flight -= 1
            self._meter.answered(endpoint, exchange.model, status, seconds)
            note = log.debug if scope["path"] in POLLED else log.info
            note(
                "request",
                request_id=exchange.id,
                method=scope["method"],
                path=scope["path"],
                status=status,
                ms=round(seconds * 1000, 1),
                **exchange.facts,
            )
