"""Before every request: its id, its way, its log line."""

from __future__ import annotations

import time
from collections.abc import Mapping

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.edge.exchange import begin_exchange
from headrace.edge.headers import header
from headrace.observe.meter import Meter

log = structlog.get_logger("headrace.edge")

POLLED = ("/healthz", "/readyz", "/metrics")
"""Paths that balancers and Prometheus ask for all the time."""

CLIENT_GONE = 499
"""What the log shows where the client left before there was a status."""


class Front:
    """Pure ASGI around the application; a stream pays one comparison per chunk for it.

    direct: what is posted to these paths, by no page in a browser, is answered by these
    applications, past the layers of `app`, which would cost as much as all else about a small
    request. endpoints: the paths of the routes of `app`, by what they lead to, under which
    requests are counted.
    """

    def __init__(
        self,
        app: ASGIApp,
        meter: Meter,
        direct: Mapping[str, ASGIApp],
        endpoints: Mapping[object, str],
    ) -> None:
        self.app = app
        self._meter = meter
        self._direct = direct
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = begin_exchange(scope)
        direct = self._direct.get(scope["path"]) if scope["method"] == "POST" else None
        if direct and header(scope, b"origin") is not None:
            direct = None
        self._meter.in_flight += 1

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"x-request-id", exchange.id.encode()),
                    *exchange.headers.items(),
                ]
            await send(message)

        try:
            await (direct or self.app)(scope, receive, send_with_id)
        finally:
            seconds = time.perf_counter() - exchange.arrived
            endpoint = scope["path"] if direct else self._endpoints.get(scope.get("endpoint"), "")
            self._meter.in_flight -= 1
            status = exchange.status or CLIENT_GONE
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
