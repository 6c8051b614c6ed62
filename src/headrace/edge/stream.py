"""A response of server-sent events."""

from __future__ import annotations

import asyncio

from starlette.types import Send

from headrace.api import sse

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class EventStream:
    """Sends events, and `beat` whenever it was quiet for `keepalive` seconds.

    A reader that is slow makes `write` wait, and nobody else.
    """

    def __init__(self, send: Send, keepalive: float, beat: bytes = sse.KEEPALIVE) -> None:
        self._send = send
        self._keepalive = keepalive
        self._beat = beat
        self._written = 0.0
        self._beating: asyncio.Task[None] | None = None

    @property
    def started(self) -> bool:
        return self._beating is not None

    async def start(self, events: bytes = b"") -> None:
        """Send the head and the first events; from here on the status is 200."""
        self._written = asyncio.get_running_loop().time()
        self._beating = asyncio.create_task(self._keep_alive())
        await self._send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        if events:
            await self.write(events)

    async def write(self, events: bytes) -> None:
        self._written = asyncio.get_running_loop().time()
        body = sse.plain_lines(events)
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def end(self, events: bytes) -> None:
        """Send the last events and end the response."""
        self.close()
        body = sse.plain_lines(events)
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    def close(self) -> None:
        """Write nothing more by itself. Safe to call again."""
        if self._beating is not None:
            self._beating.cancel()

    async def _keep_alive(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            quiet = loop.time() - self._written
            if quiet >= self._keepalive:
                await self.write(self._beat)
                quiet = 0.0
            await asyncio.sleep(self._keepalive - quiet)
