"""Before every request: its id, its way, its log line."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.api.openai.errors import shutting_down
from headrace.edge.exchange import begin_exchange
from headrace.edge.headers import header
from headrace.edge.refusal import refusal_of
from headrace.edge.responses import error_response
from headrace.observe.meter import Meter

log = structlog.get_logger("headrace.edge")

POLLED = ("/healthz", "/readyz", "/metrics")
"""Paths that balancers and Prometheus ask for all the time. They are served whatever happens."""

CLIENT_GONE = 499
"""What the log shows where the client left before there was a status."""


class Front:
    """Pure ASGI around the application; a stream pays one comparison per chunk for it.

    direct: what is posted to these paths, by no page in a browser, is answered by these
    applications, past the layers of `app`, which would cost as much as all else about a small
    request. endpoints: the paths of the routes of `app`, by what they lead to, under which
    requests are counted. draining: whether the service ends, so that nothing new is served.
    """

    def __init__(
        self,
        app: ASGIApp,
        meter: Meter,
        direct: Mapping[str, ASGIApp],
        endpoints: Mapping[object, str],
        draining: Callable[[], bool],
    ) -> None:
        self.app = app
        self._meter = meter
        self._direct = direct
        self._endpoints = endpoints
        self._draining = draining

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = begin_exchange(scope)
        path = scope["path"]
        direct = self._direct.get(path) if scope["method"] == "POST" else None
        if direct and header(scope, b"origin") is not None:
            direct = None
        refusal = refusal_of(scope)
        if refusal is None and self._draining() and path not in POLLED:
            refusal = shutting_down()
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
            if refusal is not None:
                await error_response(refusal, exchange)(scope, receive, send_with_id)
            else:
                await (direct or self.app)(scope, receive, send_with_id)
        finally:
            seconds = time.perf_counter() - exchange.arrived
            endpoint = path if direct else self._endpoints.get(scope.get("endpoint"), "")
            self._meter.in_flight -= 1
            status = exchange.status or CLIENT_GONE
            self._meter.answered(endpoint, exchange.model, status, seconds)
            note = log.debug if path in POLLED else log.info
            if exchange.model:
                exchange.facts.setdefault("model", exchange.model)
            note(
                "request",
                request_id=exchange.id,
                method=scope["method"],
                path=path,
                status=status,
                ms=round(seconds * 1000, 1),
                **exchange.facts,
            )
