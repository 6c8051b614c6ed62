"""The HTTP server under the application: uvicorn, told to stop the way we stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
from collections.abc import Callable, Iterator
from typing import cast

import uvicorn
from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headrace.api.openai.errors import head_too_large
from headrace.edge.connection import Connection, connect
from headrace.edge.exchange import new_request_id
from headrace.edge.wire import wire_of

BACKLOG = 2048
GRACE_SECONDS = 30
MAX_HEAD_BYTES = 64 << 10
YOUNG_OBJECTS = 20_000
"""Objects made between two looks of the garbage collector."""


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises OSError, in words, if it can't be."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise OSError(f"cannot listen on {host!r}: {error.strerror}") from None
    listener = socket.socket(family, kind)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise OSError(f"cannot listen on {host} port {port}: {error.strerror}") from None
    return listener


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1, which by itself would buffer a head without end: one that is not
    complete after MAX_HEAD_BYTES is refused. Requests learn at once when their client leaves."""

    _unfinished_head = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.transport = HeadHolder(transport)
        self._connection = Connection()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._connection.lose()

    def on_message_begin(self) -> None:
        self._unfinished_head = 1
        super().on_message_begin()
        connect(cast(Scope, self.scope), self._connection)

    def on_headers_complete(self) -> None:
        self._unfinished_head = 0
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._unfinished_head:
            self._unfinished_head += len(data)
            if self._unfinished_head > MAX_HEAD_BYTES:
                self._refuse_head()

    def _refuse_head(self) -> None:
        error, id = head_too_large(MAX_HEAD_BYTES), new_request_id()
        wire = wire_of(self.url.decode("latin-1"))
        body = wire.error(error, id)
        more = b"".join(b"%b: %b\r\n" % header for header in wire.headers(id).items())
        self.transport.write(
            b"HTTP/1.1 %d Request Header Fields Too Large\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n%bconnection: close\r\n\r\n%b"
            % (error.status, len(body), more, body)
        )
        self.transport.close()


class HeadHolder(asyncio.Transport):
    """Writes the head of a response together with what follows it in the same turn of the loop:
    a small answer is one system call, which is most of what sending it costs, and one packet."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._head = b""

    def write(self, data: bytes) -> None:  # type: ignore[override]
        if self._head:
            self._transport.write(self._head + data)
            self._head = b""
        elif data.startswith(b"HTTP/1.1 "):
            self._head = data
            asyncio.get_running_loop().call_soon(self._release)
        else:
            self._transport.write(data)

    def close(self) -> None:
        self._release()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def _release(self) -> None:
        if self._head:
            self._transport.write(self._head)
            self._head = b""


class Server(uvicorn.Server):
    """Serves until SIGINT or SIGTERM. Then `on_stop` is called, open requests may finish for
    GRACE_SECONDS, and `serve` returns; a second signal ends them at once."""

    def __init__(self, app: ASGIApp, on_stop: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                loop="none",
                http=HttpProtocol,
                ws="none",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )
        self._on_stop = on_stop

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Instead of uvicorn's, which raises the signal again and so ends with its status."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        for number in signals:
            loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """What is there by now stays, so the collector need not look at it again; and of what
        requests leave, little is in cycles. Else it would take a fifth of a busy service's time."""
        await super().startup(sockets)
        gc.collect()
        gc.freeze()
        gc.set_threshold(YOUNG_OBJECTS, 20, 50)

    def stop(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True
        self._on_stop()
