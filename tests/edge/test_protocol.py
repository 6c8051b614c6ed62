"""One connection by hand: a transport that notes, and a clock that is set."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send

from headrace.edge.answering import Answering
from headrace.edge.front import Front
from headrace.edge.open_connections import SPARE, ConnectionLimits, OpenConnections
from headrace.edge.protocol import IDLE_MARGIN, MOST_SKIPPED, HttpConnection, HttpService
from headrace.observe.meter import Meter

LIMITS = ConnectionLimits(
    connections=4, head=10, body=20, body_rate=100, write=60, idle=75, linger=2
)


class Wire(asyncio.Transport):
    """Notes what is written to it and how it ends. paused: it is not read from. unsent: bytes of
    what was written that its client has not made room for."""

    def __init__(self, peer: str = "10.0.0.1") -> None:
        super().__init__()
        self.peer = peer
        self.sent = b""
        self.writes: list[bytes] = []
        self.ended = ""
        self.paused = False
        self.unsent = 0
        self.connection: HttpConnection | None = None
        self._high = 64 << 10

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self.peer, 1)

    def write(self, data: Any) -> None:
        assert not self.ended
        self.writes.append(data)
        self.sent += data

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        self._high = high
        if self.unsent > high and self.connection is not None:
            self.connection.pause_writing()

    def drain(self) -> None:
        """The client has taken all."""
        assert self.connection is not None
        self.unsent = 0
        if not self.connection.writable:
            self.connection.resume_writing()
        if self.ended == "closed":
            asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def write_eof(self) -> None:
        self.ended = "eof"

    def close(self) -> None:
        self._end("closed")

    def abort(self) -> None:
        self._end("aborted")

    def is_closing(self) -> bool:
        return self.ended in ("closed", "aborted")

    def _end(self, how: str) -> None:
        if self.ended != "aborted" and not (how == self.ended == "closed"):
            self.ended = how
            assert self.connection is not None
            if how == "closed" and self.unsent:
                return
            asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)


class Clock:
    """A loop whose time is set."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._loop = asyncio.get_running_loop()

    def time(self) -> float:
        return self.now

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Bench:
    """Connections of one service, whose time passes by hand."""

    def __init__(self, app: App | None = None, limits: ConnectionLimits = LIMITS) -> None:
        front = Front(app or echo, Meter(), {}, {}, lambda: False)
        self.service = HttpService(front, OpenConnections(limits), ["/healthz"])
        self.clock = Clock()
        self.service.loop = cast(asyncio.AbstractEventLoop, self.clock)

    def connect(self, peer: str = "10.0.0.1") -> tuple[HttpConnection, Wire]:
        wire, connection = Wire(peer), HttpConnection(self.service)
        wire.connection = connection
        connection.connection_made(wire)
        return connection, wire

    async def after(self, seconds: float) -> None:
        """That much later."""
        self.clock.now += seconds
        self.service.tick()
        await turns()


async def turns(count: int = 20) -> None:
    """What can happen by itself has happened."""
    for _ in range(count):
        await asyncio.sleep(0)


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the path and the body."""
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body += message["body"]
        if not message["more_body"]:
            break
    told = scope["path"].encode() + b"|" + body
    length = (b"content-length", b"%d" % len(told))
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": told})


def get(path: str, *headers: str) -> bytes:
    lines = "".join(f"{line}\r\n" for line in ("host: a", *headers))
    return f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode()


def post(path: str, body: bytes, *headers: str) -> bytes:
    lines = "".join(f"{line}\r\n" for line in headers)
    head = f"POST {path} HTTP/1.1\r\nhost: a\r\n{lines}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def statuses(sent: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+) ", sent)]


def error(sent: bytes) -> dict[str, Any]:
    """The error of the last response, in the API's shape."""
    head, _, body = sent[sent.rindex(b"HTTP/1.1 ") :].partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head
    assert b"x-request-id: req_" in head
    told: dict[str, Any] = json.loads(body)["error"]
    return told


# What it answers.


async def test_a_small_answer_is_one_write_that_tells_how_long_it_may_be_idle() -> None:
    bench = Bench()
    connection, wire = bench.connect()
    connection.data_received(get("/x"))
    await turns()
    assert len(wire.writes) == 1
    assert b"\r\nkeep-alive: timeout=75\r\n" in wire.sent
    assert b"\r\ndate: " in wire.sent
    assert wire.sent.endswith(b"\r\n\r\n/x|")


async def test_requests_on_one_connection_are_answered_in_their_order() -> None:
    connection, wire = Bench().connect()
    connection.data_received(get("/1") + post("/2", b"b" * 90_000) + get("/3"))
    await turns()
    assert statuses(wire.sent) == [200] * 3
    assert wire.sent.index(b"/1|") < wire.sent.index(b"/2|b") < wire.sent.index(b"/3|")


async def test_others_have_their_turn_beside_a_body_of_many_chunks() -> None:
    bench = Bench()
    many, its = bench.connect()
    many.data_received(
        b"POST /m HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
        + b"1\r\na\r\n" * 12_000
        + b"0\r\n\r\n"
    )
    other, wire = bench.connect()
    other.data_received(get("/x"))
    await turns(6)
    assert wire.sent.endswith(b"/x|")
    assert not its.sent
    await turns()
    assert its.sent.endswith(b"/m|" + b"a" * 12_000)


async def test_connection_close_is_heeded() -> None:
    connection, wire = Bench().connect()
    connection.data_received(get("/1", "connection: close"))
    await turns()
    assert b"connection: close" in wire.sent
    assert wire.ended == "closed"


async def streams(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for piece in (b"one", b"two"):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def test_a_stream_is_chunked() -> None:
    connection, wire = Bench(streams).connect()
    connection.data_received(get("/"))
    await turns()
    assert wire.sent.endswith(b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")
    assert wire.writes[0].endswith(b"one\r\n"), "the head goes with what follows it"
    assert not wire.ended


@pytest.mark.parametrize("header", ["", "connection: keep-alive\r\n"])
async def test_a_stream_to_http_1_0_ends_with_the_connection(header: str) -> None:
    connection, wire = Bench(streams).connect()
    connection.data_received(f"GET / HTTP/1.0\r\n{header}\r\n".encode())
    await turns()
    assert b"transfer-encoding" not in wire.sent
    assert b"connection: close" in wire.sent
    assert wire.sent.endswith(b"\r\n\r\nonetwo")
    assert wire.ended == "closed"


async def test_http_1_0_may_keep_a_connection_that_has_lengths() -> None:
    connection, wire = Bench().connect()
    connection.data_received(b"GET /1 HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
    await turns()
    assert b"connection: keep-alive" in wire.sent
    connection.data_received(b"GET /2 HTTP/1.0\r\n\r\n")
    await turns()
    assert b"/2|" in wire.sent
    assert wire.ended == "closed"


async def test_head_has_no_body() -> None:
    connection, wire = Bench().connect()
    connection.data_received(b"HEAD /x HTTP/1.1\r\nhost: a\r\n\r\n" + get("/y"))
    await turns()
    assert b"content-length: 3\r\n" in wire.sent
    assert b"/x|" not in wire.sent
    assert wire.sent.endswith(b"/y|")


async def test_a_head_that_nothing_follows_goes_out_by_itself() -> None:
    go = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await go.wait()
        await send({"type": "http.response.body", "body": b"late"})

    connection, wire = Bench(app).connect()
    connection.data_received(get("/"))
    await turns()
    assert statuses(wire.sent) == [200]
    go.set()
    await turns()
    assert wire.sent.endswith(b"\r\n\r\n4\r\nlate\r\n0\r\n\r\n")


async def test_continue_is_sent_when_the_body_is_wanted() -> None:
    connection, wire = Bench().connect()
    head = post("/x", b"abc", "expect: 100-continue")[:-3]
    connection.data_received(head)
    await turns()
    assert wire.sent == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection.data_received(b"abc")
    await turns()
    assert wire.sent.endswith(b"/x|abc")
    assert not wire.ended


async def test_who_waits_to_be_told_to_continue_is_told_no_and_nothing_else() -> None:
    async def refuses(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b"no"})

    connection, wire = Bench(refuses).connect()
    connection.data_received(post("/x", b"abc", "expect: 100-continue")[:-3])
    await turns()
    assert statuses(wire.sent) == [401]
    assert b"connection: close" in wire.sent


async def ignores(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["path"].encode()})


async def test_a_short_body_that_nobody_wanted_is_skipped() -> None:
    connection, wire = Bench(ignores).connect()
    whole = post("/1", b"GET /evil HTTP/1.1\r\nhost: a\r\n\r\n")
    connection.data_received(whole[:-9])
    await turns()
    connection.data_received(whole[-9:] + get("/2"))
    await turns()
    assert statuses(wire.sent) == [200, 200]
    assert wire.sent.endswith(b"/2")


async def test_behind_a_long_body_that_nobody_wanted_the_connection_is_closed() -> None:
    bench = Bench(ignores)
    connection, wire = bench.connect()
    connection.data_received(post("/1", b"x" * (MOST_SKIPPED + 10))[: MOST_SKIPPED // 2])
    await turns()
    assert b"connection: close" in wire.sent
    assert wire.ended == "eof", "the client may read the answer while it still sends"
    connection.data_received(b"x" * 1000)
    await bench.after(3)
    assert wire.ended == "aborted"


async def test_a_header_with_a_line_break_is_not_sent() -> None:
    async def splits(scope: Scope, receive: Receive, send: Send) -> None:
        evil = [(b"x", b"a\r\nset-cookie: b")]
        await send({"type": "http.response.start", "status": 200, "headers": evil})

    connection, wire = Bench(splits).connect()
    connection.data_received(get("/"))
    await turns()
    assert b"set-cookie" not in wire.sent
    assert error(wire.sent)["code"] == "internal_error"


async def test_an_answer_shorter_than_it_said_cuts_the_connection() -> None:
    async def lies(scope: Scope, receive: Receive, send: Send) -> None:
        length = [(b"content-length", b"5")]
        await send({"type": "http.response.start", "status": 200, "headers": length})
        await send({"type": "http.response.body", "body": b"abc"})

    connection, wire = Bench(lies).connect()
    connection.data_received(get("/"))
    await turns()
    assert wire.ended == "aborted"


# What is no request.


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (b"nonsense\r\n\r\n", 400, "malformed_request"),
        (b"GET / HTTP/1.1\r\n\r\n", 400, "malformed_request"),
        (b"\x16\x03\x01\x00\xa5\x01", 400, "malformed_request"),
        (b"GET / HTTP/2.0\r\nhost: a\r\n\r\n", 505, "http_version_not_supported"),
        (get("/", "transfer-encoding: gzip, chunked"), 501, "transfer_coding_not_supported"),
        (get("/", "x: " + "y" * 70_000), 431, "request_too_large"),
        (get("/", *["a: b"] * 10_000), 431, "request_too_large"),
    ],
)
async def test_what_is_no_request_is_answered_in_the_api_s_format(
    data: bytes, status: int, code: str
) -> None:
    connection, wire = Bench().connect()
    connection.data_received(data)
    await turns()
    assert statuses(wire.sent) == [status]
    assert error(wire.sent)["code"] == code
    assert wire.ended == "eof"


async def test_a_request_before_nonsense_is_answered() -> None:
    connection, wire = Bench().connect()
    connection.data_received(get("/1") + b"nonsense\r\n\r\n")
    await turns()
    assert statuses(wire.sent) == [200, 400]


async def test_a_malformed_chunk_is_a_400() -> None:
    connection, wire = Bench().connect()
    head = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
    connection.data_received(head + b"3\r\nabc\r\nx\r\n")
    await turns()
    assert statuses(wire.sent) == [500]  # of `echo`: the API answers ApiError with its own status
    assert wire.ended == "eof"


# How long it waits.


async def test_half_a_head_is_a_408_after_its_time_however_it_dribbles() -> None:
    bench = Bench()
    connection, wire = bench.connect()
    for byte in b"GET / HTT":
        connection.data_received(bytes([byte]))
        await bench.after(1)
    assert not wire.sent
    await bench.after(2)
    assert statuses(wire.sent) == [408]
    assert error(wire.sent)["code"] == "request_timeout"
    await bench.after(3)
    assert wire.ended == "aborted"


async def test_a_connection_that_says_nothing_is_closed_without_a_word() -> None:
    bench = Bench()
    _, wire = bench.connect()
    await bench.after(9)
    assert not wire.ended
    await bench.after(2)
    assert wire.ended
    assert not wire.sent


async def test_an_idle_connection_stays_for_as_long_as_it_says() -> None:
    bench = Bench()
    connection, wire = bench.connect()
    connection.data_received(get("/1"))
    await bench.after(75)
    assert not wire.ended
    connection.data_received(get("/2"))
    await turns()
    assert statuses(wire.sent) == [200, 200]
    await bench.after(75 + IDLE_MARGIN)
    assert wire.ended == "closed"


async def test_the_next_head_on_a_connection_has_its_time_too() -> None:
    bench = Bench()
    connection, wire = bench.connect()
    connection.data_received(get("/1"))
    await bench.after(50)
    connection.data_received(b"GET")
    await bench.after(9)
    assert statuses(wire.sent) == [200]
    await bench.after(2)
    assert statuses(wire.sent) == [200, 408]


async def waits_for_body(scope: Scope, receive: Receive, send: Send) -> None:
    """As the API's endpoints, by way of `Answering`."""
    await Answering(echo)(scope, receive, send)


async def test_a_pause_in_the_body_is_a_408() -> None:
    bench = Bench(waits_for_body)
    connection, wire = bench.connect()
    connection.data_received(post("/", b"x" * 1000)[:-500])
    await bench.after(19)
    connection.data_received(b"x")
    await bench.after(1)
    assert not wire.sent
    await bench.after(20)
    assert statuses(wire.sent) == [408]
    assert error(wire.sent)["code"] == "request_timeout"


async def test_a_body_that_dribbles_is_a_408() -> None:
    bench = Bench(waits_for_body)
    connection, wire = bench.connect()
    connection.data_received(post("/", b"x" * 1000)[:-900])  # 100 bytes: a second more
    await turns()
    for _ in range(20):
        await bench.after(1)
        connection.data_received(b"x")
    await bench.after(0)
    assert not wire.sent
    await bench.after(1.5)
    assert statuses(wire.sent) == [408]


async def test_a_body_of_its_least_rate_has_all_the_time_it_needs() -> None:
    bench = Bench(waits_for_body)
    connection, wire = bench.connect()
    connection.data_received(post("/", b"x" * 10_000)[:-10_000])
    for _ in range(100):
        await bench.after(1)
        assert not wire.sent
        connection.data_received(b"x" * 100)
        await turns()
    assert statuses(wire.sent) == [200]


async def test_work_on_a_request_has_no_deadline() -> None:
    go = asyncio.Event()

    async def works(scope: Scope, receive: Receive, send: Send) -> None:
        await go.wait()
        await ignores(scope, receive, send)

    bench = Bench(works)
    connection, wire = bench.connect()
    connection.data_received(get("/1"))
    await bench.after(100_000)
    assert not wire.ended
    go.set()
    await turns()
    assert statuses(wire.sent) == [200]


async def test_who_never_reads_is_cut_off_and_the_writer_waits_meanwhile() -> None:
    sent = 0
    left = asyncio.Event()

    async def floods(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal sent
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while (await asyncio.wait_for(ready(receive), 1)) is None:
            await send({"type": "http.response.body", "body": b"x" * 1000, "more_body": True})
            sent += 1
            await asyncio.sleep(0)
        left.set()

    async def ready(receive: Receive) -> Message | None:
        return {"type": "gone"} if wire.ended else None

    bench = Bench(floods)
    connection, wire = bench.connect()
    connection.data_received(get("/"))
    await turns()
    connection.pause_writing()
    before = sent
    await bench.after(59)
    assert sent <= before + 1, "what is not read is not written"
    assert not wire.ended
    await bench.after(2)
    assert wire.ended == "aborted"
    await asyncio.wait_for(left.wait(), 5)


async def test_a_slow_reader_who_reads_is_not_cut_off() -> None:
    bench = Bench(streams)
    connection, wire = bench.connect()
    connection.pause_writing()
    connection.data_received(get("/"))
    for _ in range(10):
        await bench.after(50)
        connection.resume_writing()
        connection.pause_writing()
    assert not wire.is_closing()
    connection.resume_writing()
    await turns()
    assert wire.sent.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("request_", [get("/", "connection: close"), b"GET / HTTP/1.0\r\n\r\n"])
async def test_the_end_of_an_answer_waits_for_a_slow_reader(request_: bytes) -> None:
    bench = Bench()
    connection, wire = bench.connect()
    wire.unsent = 1000  # fewer than pause the writer
    connection.data_received(request_)
    await turns()
    assert wire.ended == "closed"
    await bench.after(59)
    assert wire.ended == "closed", "0.1.0: aborted after 2 s"
    await bench.after(2)
    assert wire.ended == "aborted"


async def test_the_end_of_a_refusal_waits_for_a_slow_reader_and_then_for_its_sending() -> None:
    bench = Bench()
    connection, wire = bench.connect()
    wire.unsent = 1000
    connection.data_received(b"nonsense\r\n\r\n")
    await turns()
    await bench.after(59)
    assert wire.ended == "eof"
    wire.drain()
    await bench.after(1)
    assert wire.ended == "eof", "it has 2 s from then on"
    await bench.after(2)
    assert wire.ended == "aborted"


async def test_the_end_of_an_answer_waits_though_its_client_sends_no_more() -> None:
    bench = Bench()
    connection, wire = bench.connect()
    wire.unsent = 1000
    connection.data_received(get("/"))
    await turns()
    keep_open = connection.eof_received()
    if not keep_open:
        wire.close()
    await bench.after(59)
    assert wire.ended == "closed"
    await bench.after(2)
    assert wire.ended == "aborted", "0.1.0: when the idle time is over"


async def test_who_is_idle_and_slow_is_not_cut_off_for_others() -> None:
    bench = Bench()
    slow, wire = bench.connect("10.0.0.1")
    wire.unsent = 1000
    slow.data_received(get("/"))
    await turns()
    others = [bench.connect(f"10.0.0.{n}") for n in range(2, 5)]
    for connection, _ in others:
        connection.data_received(get("/"))
        await turns()
    bench.connect("10.9.9.9")
    await turns()
    assert wire.ended == "closed", "0.1.0: aborted"
    wire.drain()
    await turns()
    assert len(bench.service.connections) == 4


async def test_the_end_of_an_answer_waits_though_the_body_does_not_come() -> None:
    bench = Bench(ignores)
    connection, wire = bench.connect()
    wire.unsent = 1000
    connection.data_received(post("/1", b"x" * 1000)[:-1])
    await turns()
    await bench.after(21)
    assert wire.ended == "eof", "0.1.0: aborted"
    await bench.after(59)
    assert wire.ended == "eof"
    await bench.after(2)
    assert wire.ended == "aborted"


async def test_a_body_has_its_deadline_though_the_answer_before_was_read_late() -> None:
    bench = Bench(waits_for_body)
    connection, wire = bench.connect()
    connection.data_received(get("/1"))
    await turns()
    connection.pause_writing()
    connection.data_received(post("/2", b"x" * 1000)[:-1])
    await turns()
    connection.resume_writing()
    await turns()
    await bench.after(40)
    assert statuses(wire.sent) == [200, 408], "0.1.0: it may take for ever"


# Clients that leave.


async def test_a_client_that_leaves_is_told_of_in_the_middle_of_its_body() -> None:
    heard: list[str] = []

    async def hears(scope: Scope, receive: Receive, send: Send) -> None:
        while True:
            heard.append((await receive())["type"])
            if heard[-1] == "http.disconnect":
                return

    connection, wire = Bench(hears).connect()
    connection.data_received(post("/", b"abc")[:-1])
    await turns()
    wire.abort()
    await turns()
    assert heard == ["http.request", "http.disconnect"]


async def test_who_sends_no_more_may_read_its_answer() -> None:
    connection, wire = Bench().connect()
    connection.data_received(get("/1"))
    assert connection.eof_received()
    await turns()
    # `echo` was told that its client is gone before it read: it answers nothing.
    assert wire.ended in ("closed", "aborted")
    go = asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await go.wait()
        await ignores(scope, receive, send)

    connection, wire = Bench(slow).connect()
    connection.data_received(get("/1"))
    await turns()
    assert connection.eof_received()
    go.set()
    await turns()
    assert statuses(wire.sent) == [200]
    assert wire.ended == "closed"


# How many there may be.


async def test_half_sent_heads_make_room_for_others() -> None:
    bench = Bench()
    halves = [bench.connect(f"10.0.0.{n}") for n in range(4)]
    for connection, _ in halves:
        connection.data_received(b"GET / HT")
    await bench.after(1.5)
    connection, wire = bench.connect("10.9.9.9")
    connection.data_received(get("/healthz"))
    await turns()
    assert statuses(wire.sent) == [200]
    assert [half.ended for _, half in halves] == ["aborted", "", "", ""]


async def test_idle_connections_make_room_and_the_oldest_first() -> None:
    bench = Bench()
    idle = [bench.connect(f"10.0.0.{n}") for n in range(4)]
    for connection, _ in idle:
        connection.data_received(get("/"))
        await bench.after(1)
    idle[0][0].data_received(get("/again"))
    await turns()
    bench.connect("10.9.9.9")
    await turns()
    assert [bool(wire.ended) for _, wire in idle] == [False, True, False, False]


async def test_each_that_comes_in_a_burst_has_another_make_room() -> None:
    bench = Bench()
    idle = [bench.connect(f"10.0.0.{n}") for n in range(4)]
    for connection, _ in idle:
        connection.data_received(get("/"))
        await turns()
    await bench.after(2)
    for number in range(4):
        bench.connect(f"10.9.9.{number}")
    assert [bool(wire.ended) for _, wire in idle] == [True] * 4, "0.1.0: the first of them"
    await turns()
    assert len(bench.service.connections) == 4


async def busy(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["path"] == "/busy":
        await asyncio.Event().wait()
    await ignores(scope, receive, send)


async def test_where_all_are_at_work_the_newest_is_a_503_but_health_is_told() -> None:
    bench = Bench(busy)
    for number in range(4):
        connection, _ = bench.connect(f"10.0.0.{number}")
        connection.data_received(get("/busy"))
    await turns()
    connection, wire = bench.connect()
    connection.data_received(get("/v1/models"))
    await turns()
    assert statuses(wire.sent) == [503]
    assert "too_many_connections" in error(wire.sent)["message"]
    connection, wire = bench.connect()
    connection.data_received(get("/healthz"))
    await turns()
    assert statuses(wire.sent) == [200]
    assert b"connection: close" in wire.sent


async def test_beyond_the_limit_there_is_a_limit() -> None:
    bench = Bench(busy)
    for number in range(4 + SPARE):
        connection, _ = bench.connect(f"10.0.0.{number}")
        if number < 4:
            connection.data_received(get("/busy"))
            await turns()
    for _ in range(100):
        bench.connect()
        await turns()
    assert len(bench.service.connections) <= 4 + SPARE + 1


async def test_an_address_that_has_most_makes_room_for_itself() -> None:
    bench = Bench()
    friend, wire = bench.connect("10.9.9.9")
    friend.data_received(get("/"))
    await turns()
    for _ in range(20):
        connection, _ = bench.connect("10.6.6.6")
        connection.data_received(get("/"))
        await bench.after(2)
    assert not wire.ended
    assert len(bench.service.connections) == 4


# However the bytes come.

PIPELINE = (
    get("/1")
    + post("/2", b"GET /evil HTTP/1.1\r\nhost: a\r\n\r\n")
    + b"POST /3 HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
    b"4;x=y\r\n\r\n\r\n\r\n2\r\nab\r\n0\r\nt: u\r\n\r\n"
    + b"HEAD /4 HTTP/1.1\r\nhost: a\r\n\r\n"
    + post("/5", b"")
    + get("/6", "connection: close")
    + get("/never")
)


async def answers(pieces: list[bytes]) -> bytes:
    bench = Bench()
    bench.service.tick = lambda: None  # type: ignore[method-assign]
    bench.service.date = b"date: now\r\n"
    connection, wire = bench.connect()
    for piece in pieces:
        if not wire.ended:
            connection.data_received(piece)
            await turns()
    lines = wire.sent.split(b"\r\n")
    return b"\r\n".join(line for line in lines if not line.startswith(b"x-request-id"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.sets(st.integers(1, len(PIPELINE) - 1), max_size=30))
def test_any_split_of_the_bytes_gives_the_same_answers(cuts: set[int]) -> None:
    ends = [0, *sorted(cuts), len(PIPELINE)]

    async def both() -> None:
        whole = await answers([PIPELINE])
        assert statuses(whole) == [200] * 6
        assert b"/3|\r\n\r\nab" in whole
        pieces = [PIPELINE[a:b] for a, b in itertools.pairwise(ends)]
        assert await answers(pieces) == whole

    asyncio.run(both())
