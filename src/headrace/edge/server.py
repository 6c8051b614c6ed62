"""The HTTP server under the application: uvicorn, told to stop the way we stop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn
from starlette.types import ASGIApp

BACKLOG = 2048
GRACE_SECONDS = 30


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


class Server(uvicorn.Server):
    """Serves until SIGINT or SIGTERM. Then `on_stop` is called, open requests may finish for
    GRACE_SECONDS, and `serve` returns; a second signal ends them at once."""

    def __init__(self, app: ASGIApp, on_stop: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                loop="none",
                http="httptools",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
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

    def stop(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True
        self._on_stop()
