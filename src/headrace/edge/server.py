"""The HTTP server under the application: it listens, and knows when and how to stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from typing import TYPE_CHECKING

import structlog
from starlette.types import ASGIApp

from headrace.edge.open_connections import SPARE, ConnectionLimits, OpenConnections
from headrace.edge.protocol import HttpConnection, HttpService

if TYPE_CHECKING:
    from headrace.settings import Settings

log = structlog.get_logger("headrace.edge")

BACKLOG = 2048
LAST_SECONDS = 5.0
"""For the last events of streams and the last answers, once the grace is over."""

POLL_SECONDS = 0.01

OTHER_FILES = 128
"""Open files of the process that are no clients' connections, at most: databases, engines, logs."""

YOUNG_OBJECTS = 20_000
"""Objects made between two runs of the garbage collector."""

SWITCH_SECONDS = 0.001
"""For which a thread that prepares requests holds up the event loop where both have work. The
loop may wait so long several times for one answer, so Python's own 5 ms are too many."""

_CLIENT_IS_DEAD = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 4))
"""After so long without a sign the kernel asks, and takes the client for lost without an answer."""


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
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _CLIENT_IS_DEAD:
            listener.setsockopt(socket.IPPROTO_TCP, option, value)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise OSError(f"cannot listen on {host} port {port}: {error.strerror}") from None
    return listener


def raise_file_limit() -> int:
    """Let the process have as many open files as it may; how many that is."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != soft:
        with contextlib.suppress(OSError, ValueError):  # macOS has a lower one of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 30 if limit == resource.RLIM_INFINITY else limit


def is_local(listener: socket.socket) -> bool:
    """Whether only processes of this machine can reach it."""
    if listener.family not in (socket.AF_INET, socket.AF_INET6):
        return True
    address = ipaddress.ip_address(listener.getsockname()[0].partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def connection_limits(settings: Settings) -> ConnectionLimits:
    """The limits that are set, with as many connections as the process may have open files for."""
    files = raise_file_limit()
    most = max(files - OTHER_FILES - SPARE, 16)
    if most < settings.max_connections:
        log.warning("max_connections_lowered", files=files, connections=most)
    return ConnectionLimits(
        connections=min(settings.max_connections, most),
        head=settings.head_timeout,
        body=settings.body_timeout,
        body_rate=settings.body_min_rate,
        write=settings.write_timeout,
        idle=settings.keep_alive_timeout,
    )


class Server:
    """Serves `app` until `stop` is called or SIGINT or SIGTERM comes.

    Then `on_stop` is called, which has the application refuse what is new; the listener stays
    open and requests that are under way may finish for `grace` seconds. After that, or when `stop`
    is called again, they are told to end with an error. always: paths that are answered however
    many connections there are.
    """

    def __init__(
        self,
        app: ASGIApp,
        on_stop: Callable[[], None],
        *,
        limits: ConnectionLimits | None = None,
        grace: float = 30.0,
        always: Collection[str] = (),
    ) -> None:
        self.started = False
        self._app = app
        self._on_stop = on_stop
        self._limits = limits or ConnectionLimits()
        self._grace = grace
        self._always = always
        self._stopping = asyncio.Event()
        self._hurried = False

    def stop(self) -> None:
        """Stop with grace; called again, without."""
        if self._stopping.is_set():
            self._hurried = True
            return
        self._stopping.set()
        self._on_stop()

    async def serve(self, listener: socket.socket) -> None:
        """Until stopped. Closes the listener."""
        loop = asyncio.get_running_loop()
        service = HttpService(self._app, OpenConnections(self._limits), self._always)
        server = await loop.create_server(lambda: HttpConnection(service), sock=listener)
        try:
            async with _every_second(service.tick):
                with self._signals():
                    _settle()
                    self.started = True
                    await self._stopping.wait()
                    service.draining = True
                    await self._drain(service)
                    server.close()
                    await _finish(service)
        finally:
            server.close()

    async def _drain(self, service: HttpService) -> None:
        """Let requests finish, for as long as they may."""
        log.info("draining", requests=len(service.tasks), seconds=self._grace)
        end = service.loop.time() + self._grace
        while service.tasks and not self._hurried and service.loop.time() < end:  # noqa: ASYNC110
            await asyncio.sleep(POLL_SECONDS)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        for number in signals:
            loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)


async def _finish(service: HttpService) -> None:
    """Have what is under way end with an error, and close all connections."""
    tasks, connections, time = service.tasks, service.connections, service.loop.time
    if tasks:
        log.warning("requests_stopped", requests=len(tasks))
    for exchange in list(tasks.values()):
        exchange.stop()
    end = time() + LAST_SECONDS
    if tasks:
        await asyncio.wait(list(tasks), timeout=LAST_SECONDS / 2)
    for task in list(tasks):
        task.cancel()
    if tasks:
        await asyncio.wait(list(tasks), timeout=LAST_SECONDS / 4)
    connections.close_idle()
    while len(connections) and time() < end:  # noqa: ASYNC110
        await asyncio.sleep(POLL_SECONDS)
    connections.cut_all()
    for task, exchange in list(tasks.items()):
        exchange.cut()
        task.cancel()


@contextlib.asynccontextmanager
async def _every_second(work: Callable[[], None]) -> AsyncIterator[None]:
    async def repeat() -> None:
        while True:
            await asyncio.sleep(1.0)
            work()

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _settle() -> None:
    """What is there by now stays, so the collector need not look at it again; and of what
    requests leave, little is in cycles. Else it would take a fifth of a busy service's time.
    Threads take turns more often than usual."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 50)
    sys.setswitchinterval(SWITCH_SECONDS)
