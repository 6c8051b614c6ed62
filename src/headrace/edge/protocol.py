"""One HTTP/1.1 connection: its requests, one after the other, answered by an ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from email.utils import formatdate

import structlog
from starlette.types import ASGIApp, Message, Scope

from headrace.api.openai.errors import (
    ApiError,
    internal_error,
    request_timeout,
    shutting_down,
    too_many_connections,
)
from headrace.edge.connection import Connection, connect
from headrace.edge.open_connections import Line, OpenConnections
from headrace.edge.refusal import refuse
from headrace.edge.request_reader import RequestHead, RequestReader
from headrace.edge.response_writer import ResponseWriter

log = structlog.get_logger("headrace.edge")

MOST_BUFFERED = 64 << 10
"""Bytes that are read ahead of the application before the client has to wait."""

MOST_SKIPPED = 64 << 10
"""Bytes of a body that nobody wanted which are read for the sake of the next request. Where there
are more the connection is closed."""

IDLE_MARGIN = 1.0
"""Seconds that an idle connection stays open beyond what the client is told."""


class HttpService:
    """What all connections of a server share.

    always: paths that are served on connections beyond the limit, too. draining: no connection
    stays open behind its response. tasks: the requests that are being answered.
    """

    def __init__(self, app: ASGIApp, connections: OpenConnections, always: Collection[str]) -> None:
        self.app = app
        self.connections = connections
        self.limits = connections.limits
        self.always = frozenset(always)
        self.draining = False
        self.tasks: dict[asyncio.Task[None], HttpExchange] = {}
        self.loop = asyncio.get_running_loop()
        self.kept = b"connection: keep-alive\r\nkeep-alive: timeout=%d\r\n\r\n" % self.limits.idle
        self.date = b""
        self.tick()

    def tick(self) -> None:
        """To be called every second: closes what took too long."""
        self.date = b"date: %b\r\n" % formatdate(usegmt=True).encode()
        self.connections.sweep(self.loop.time())


class HttpConnection(asyncio.Protocol):
    """Reads requests and answers them in their order; the next is not parsed before the one at
    hand is answered.

    Whatever it waits for its client for has a deadline (`ConnectionLimits`); meanwhile it stands
    in one of the lines of `OpenConnections`. While it works for its client it stands in none. That
    a client sends no more is taken for its leaving, and the work for it stops.
    """

    def __init__(self, service: HttpService) -> None:
        self.service = service
        self.reader = RequestReader()
        self.peer = ""
        self.since = self.deadline = 0.0
        self.lost = False
        self._transport: asyncio.Transport
        self._exchange: HttpExchange | None = None
        self._line: Line | None = None
        self.writable = True  # or the client has not taken enough of what was written
        self._flushed: asyncio.Event | None = None
        self._reading = True
        self._beyond = False  # the limit of connections
        self._last = False  # what is still to come from the client is thrown away
        self._ended = False  # the client sends no more, and may still read

    # What the transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self.client = transport.get_extra_info("peername")
        self.server = transport.get_extra_info("sockname")
        if isinstance(self.client, tuple):
            self.peer = self.client[0]
        connections = self.service.connections
        self._wait(connections.heads, self.service.limits.head)
        self._beyond = not connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = self._last = True
        self._stand_in(None)
        self.service.connections.remove(self)
        self._flush()
        if self._exchange is not None:
            self._exchange.lose()

    def eof_received(self) -> bool:
        self._ended = True
        if self._exchange is None:
            self.close()
            return False
        self._exchange.lose()
        return True  # what is still written may be read

    def data_received(self, data: bytes) -> None:
        if self._last:
            return
        self.reader.feed(data)
        if self._exchange is None:
            self._next()
        else:
            self._exchange.wake()
        if self._exchange is not None and self.reader.buffered > MOST_BUFFERED:
            self._reading = False
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        self.writable, self._flushed = False, asyncio.Event()
        self._wait(self.service.connections.clients, self.service.limits.write)

    def resume_writing(self) -> None:
        self._flush()
        if self._exchange is not None:
            self._stand_in(None)
            self._exchange.wake()  # if it waits for a body it does so with a deadline again
        elif self._last:  # all is sent: it may read that
            self._wait(self.service.connections.clients, self.service.limits.linger)
        else:
            self._rest()

    # What it waits for.

    def expire(self) -> None:
        """The deadline has passed."""
        exchange, connections = self._exchange, self.service.connections
        if self._line is connections.heads and self.reader.in_head:
            self._refuse(request_timeout("The head of the request"))
        elif exchange is not None and exchange.may_fail and self.writable:
            self._stand_in(None)
            exchange.fail(request_timeout("The body of the request"))
        elif self._line is connections.idle:
            self.close()
        else:
            self._leave()

    def evict(self) -> None:
        """The room is needed for others."""
        exchange = self._exchange
        if exchange is not None and exchange.may_fail and self.writable:
            self._stand_in(None)
            exchange.fail(too_many_connections())
        else:
            self._leave()

    def _leave(self) -> None:
        """Close at once, but for the end of an answer that can still be sent."""
        answered = self._exchange is None and self.writable and not self._last
        if answered and self._transport.get_write_buffer_size():
            self.close()
        else:
            self.cut()

    def wait_for_body(self, began: float, received: int) -> None:
        """More of a body has to come, of which `received` bytes came since `began`."""
        limits, now = self.service.limits, self.service.loop.time()
        self._resume_reading()
        self._wait(self.service.connections.clients, limits.body)
        self.deadline = min(now, began + received / limits.body_rate) + limits.body
        self.since = began

    def work(self) -> None:
        """Nothing has to come."""
        if self.writable:
            self._stand_in(None)
        elif self._line is not self.service.connections.clients:
            self._wait(self.service.connections.clients, self.service.limits.write)

    def _rest(self) -> None:
        """The next request has to come, or what is left of a body before it."""
        connections, limits = self.service.connections, self.service.limits
        if not self.writable:
            self._wait(connections.clients, limits.write)
        elif not self.reader.body_complete:
            self._wait(connections.clients, limits.body)
        else:
            self._wait(connections.idle, limits.idle + IDLE_MARGIN)

    def _wait(self, line: Line, seconds: float) -> None:
        self.since = now = self.service.loop.time()
        self.deadline = now + seconds
        self._stand_in(line)

    def _stand_in(self, line: Line | None) -> None:
        """At the end of that line, and in no other."""
        if self._line is not None:
            self._line.pop(self, None)
        self._line = line
        if line is not None:
            line[self] = None

    # Its requests.

    def _next(self) -> None:
        """Begin with the next request, if all of its head is here."""
        service, reader = self.service, self.reader
        try:
            if not reader.body_complete:
                while reader.next_body():  # which nobody wanted
                    pass
                if not reader.body_complete:
                    return
                self._rest()
            head = reader.next_head()
        except ApiError as error:
            self._refuse(error)
            return
        if head is not None:
            self.work()
            if self._beyond and head.path not in service.always:
                self._refuse(too_many_connections(), head)
            else:
                self._begin(head)
        elif reader.in_head and self._line is not service.connections.heads:
            self._wait(service.connections.heads, service.limits.head)

    def _begin(self, head: RequestHead, refusal: ApiError | None = None) -> None:
        exchange = self._exchange = HttpExchange(self, head, refusal)
        if self._ended:
            exchange.lose()
        task = self.service.loop.create_task(exchange.run())
        self.service.tasks[task] = exchange
        task.add_done_callback(self.service.tasks.pop)

    def _refuse(self, error: ApiError, head: RequestHead | None = None) -> None:
        """Answer what is no request, or comes too late or too many, and close."""
        self.give_up()
        self.work()
        self._begin(head or self.reader.partial, error)

    def give_up(self) -> None:
        """What comes from the client makes no sense any more."""
        self._last = True

    # For its exchange.

    def may_stay(self) -> bool:
        """Whether it stays open behind the response that begins now."""
        if self._last or self._ended or self._beyond or self.service.draining:
            return False
        remaining = self.reader.remaining
        return remaining is not None and remaining <= MOST_SKIPPED

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    async def flushed(self) -> None:
        """Until it is writable, or lost."""
        if self._flushed is not None:
            await self._flushed.wait()

    def _flush(self) -> None:
        self.writable = True
        if self._flushed is not None:
            self._flushed.set()
            self._flushed = None

    def done(self, *, stays: bool) -> None:
        """The response is written."""
        self._exchange = None
        if not stays or self._ended:
            self.close()
            return
        self._rest()
        if self.reader.buffered:
            self._next()
        if not self._reading and self._exchange is None and not self._last:
            self._resume_reading()

    def close(self) -> None:
        """Close behind what is written. That has to be read like any answer. Where the client may
        still be sending it has a while more to read: the kernel would throw the answer away for
        bytes that nobody reads."""
        limits, reader = self.service.limits, self.reader
        unread = self._last or reader.buffered or not reader.body_complete
        self._last = True
        self._transport.set_write_buffer_limits(0)  # so that it is writable when all is sent
        self._wait(
            self.service.connections.clients, limits.linger if self.writable else limits.write
        )
        if unread and not self._ended:
            self._transport.write_eof()
            self._resume_reading()
        else:
            self._transport.close()

    def cut(self) -> None:
        """Close at once, whatever was to be sent."""
        self._last = True
        self._stand_in(None)
        self._transport.abort()

    def _resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            self._transport.resume_reading()


class HttpExchange:
    """A request and its response, as an ASGI application sees them. refusal: what the application
    is to answer in place of the request."""

    _began = 0.0
    _received = 0
    _waiting: asyncio.Future[None] | None = None
    _fault: ApiError | None = None
    _over = False

    def __init__(
        self, connection: HttpConnection, head: RequestHead, refusal: ApiError | None
    ) -> None:
        self._connection = connection
        self._head = head
        self._refusal = refusal
        self._writer = ResponseWriter(head)
        self._client = Connection()
        self._continues = head.expects_continue
        self._read = refusal is not None  # the body was given out, as far as there is one

    async def run(self) -> None:
        """Until the application has returned, which may be long after the response."""
        service = self._connection.service
        try:
            await service.app(self._scope(self._refusal), self.receive, self.send)
        except asyncio.CancelledError:
            self._fault = shutting_down()
        except Exception:
            log.exception("request_cut", path=self._head.path)
        if self._over:
            return
        if self._writer.started or self._client.gone:
            self._over = True
            self._connection.cut()
            return
        refusal = self._fault or internal_error("without an id")
        self._connection.give_up()
        try:
            await service.app(self._scope(refusal), self.receive, self.send)
        finally:
            if not self._over:
                self._connection.cut()

    def _scope(self, refusal: ApiError | None) -> Scope:
        head, connection = self._head, self._connection
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": head.version,
            "method": head.method,
            "scheme": "http",
            "path": head.path,
            "raw_path": head.raw_path,
            "query_string": head.query,
            "root_path": "",
            "headers": head.headers,
            "client": connection.client,
            "server": connection.server,
        }
        connect(scope, self._client)
        if refusal is not None:
            refuse(scope, refusal)
        return scope

    # What the application calls.

    async def receive(self) -> Message:
        """Raises ApiError for a body that is malformed or comes too slowly."""
        connection = self._connection
        reader, loop = connection.reader, connection.service.loop
        while not (self._over or self._client.gone):
            if self._fault is not None:
                raise self._fault
            if not self._read:
                try:
                    body = reader.next_body()
                except ApiError:
                    connection.give_up()
                    raise
                self._received += len(body)
                self._read = reader.body_complete
                if body or self._read:
                    self._continues = False
                    if self._began:
                        connection.work()
                    if reader.buffered and not self._read:
                        await asyncio.sleep(0)  # its chunks are many: others have their turn
                    return {"type": "http.request", "body": body, "more_body": not self._read}
                self._began = self._began or loop.time()
                if self._continues and not self._writer.started:
                    connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                self._continues = False
                connection.wait_for_body(self._began, self._received)
            self._waiting = loop.create_future()
            await self._waiting
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Raises ValueError or RuntimeError for what can't be sent like this."""
        connection, writer = self._connection, self._writer
        if not connection.writable:
            await connection.flushed()
        if self._over or connection.lost:
            await asyncio.sleep(0)  # so that one who heeds nothing holds up nobody
            return
        if message["type"] == "http.response.body":
            more = message.get("more_body", False)
            data = writer.body(message.get("body", b""), more=more)
            if data:
                connection.write(data)
            if not more:
                self._over = True
                self.wake()
                connection.done(stays=writer.keep_alive)
            return
        if writer.started:
            raise RuntimeError("the response has begun already")
        service = connection.service
        stays = self._head.keep_alive and not self._continues and connection.may_stay()
        kept = service.kept if stays else b""
        writer.start(message["status"], message.get("headers", ()), service.date, kept)
        if not writer.has_length:
            service.loop.call_soon(self._send_head)

    def _send_head(self) -> None:
        """If nothing came that could go with it."""
        if self._writer.holds_head and not (self._over or self._connection.lost):
            self._connection.write(self._writer.body(b"", more=True))

    # What the connection tells.

    @property
    def may_fail(self) -> bool:
        """There is still time for an answer that tells of a failure."""
        return not (self._over or self._writer.started)

    def wake(self) -> None:
        """Something has changed for whoever waits in `receive`."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def lose(self) -> None:
        """The client has left."""
        self._client.lose()
        self.wake()

    def fail(self, fault: ApiError) -> None:
        """The rest of the body is not waited for."""
        self._connection.give_up()
        self._fault = fault
        self.wake()

    def cut(self) -> None:
        """Nothing more can be sent."""
        self._connection.cut()

    def stop(self) -> None:
        """The service ends: the work for the request does, too."""
        self._client.stop()
        if not self._read:
            self.fail(shutting_down())
