from __future__ import annotations

import asyncio
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.api import sse
from headrace.api.openai.errors import ApiError
from headrace.edge.body import ClientGone, read_body
from headrace.edge.exchange import begin_exchange
from headrace.edge.sinks import Gathered, text_logprobs
from headrace.edge.spoken import Spoken
from headrace.edge.stream import EventStream
from headrace.engine.output import Finish, Output, TokenLogprob


def scope(**headers: str) -> dict[str, Any]:
    raw = [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()]
    return {"type": "http", "path": "/", "headers": raw}


# x-request-id


@pytest.mark.parametrize("offered", ["abc", "req_1", "A.b-C", "x" * 64])
def test_a_decent_request_id_is_kept(offered: str) -> None:
    assert begin_exchange(scope(x_request_id=offered)).id == offered


@pytest.mark.parametrize("offered", ["", "a b", "a\tb", "é", "x" * 65, "-a", "a;b", "<script>"])
def test_any_other_is_replaced(offered: str) -> None:
    made = begin_exchange(scope(x_request_id=offered)).id
    assert made.startswith("req_")
    assert made != begin_exchange(scope()).id


# bodies


def feed(*messages: dict[str, Any]) -> Any:
    left = list(messages)

    async def receive() -> dict[str, Any]:
        return left.pop(0)

    receive.left = left  # type: ignore[attr-defined]
    return receive


def part(data: bytes, more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": data, "more_body": more}


@given(st.lists(st.binary(max_size=5), max_size=8))
def test_a_body_is_its_parts(parts: list[bytes]) -> None:
    receive = feed(*map(part, parts), part(b"", more=False))
    body = b"".join(parts)
    assert asyncio.run(read_body(scope(), receive, 40)) == body


async def test_reading_stops_at_the_limit() -> None:
    receive = feed(*[part(b"xxx")] * 10)
    with pytest.raises(ApiError) as refused:
        await read_body(scope(), receive, 7)
    assert refused.value.status == 413
    assert len(receive.left) == 7


async def test_a_declared_length_over_the_limit_is_not_read_at_all() -> None:
    with pytest.raises(ApiError):
        await read_body(scope(content_length="8"), feed(), 7)
    assert await read_body(scope(content_length="7"), feed(part(b"1234567", False)), 7)


async def test_a_client_that_leaves_early_is_noticed() -> None:
    with pytest.raises(ClientGone):
        await read_body(scope(), feed(part(b"x"), {"type": "http.disconnect"}), 7)


# streams


class Wire:
    """A `send` that keeps what was sent, and when; `open` cleared makes it wait, as a full socket
    does."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.moments: list[float] = []
        self.arrived = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()

    async def __call__(self, message: Any) -> None:
        await self.open.wait()
        self.sent.append(message)
        self.moments.append(asyncio.get_running_loop().time())
        self.arrived.set()

    async def until(self, count: int) -> None:
        while len(self.sent) < count:
            self.arrived.clear()
            await self.arrived.wait()


async def test_a_quiet_stream_is_kept_alive_and_a_busy_one_left_alone() -> None:
    wire = Wire()
    stream = EventStream(wire, keepalive=0.02)
    await stream.start()
    assert wire.sent[0]["type"] == "http.response.start"
    await wire.until(3)
    await stream.end(b"last")
    await asyncio.sleep(0.05)
    *alive, last = [m["body"] for m in wire.sent[1:]]
    assert set(alive) == {sse.KEEPALIVE}
    assert last == b"last"
    assert wire.sent[-1]["more_body"] is False

    busy = Wire()
    stream = EventStream(busy, keepalive=0.05)
    await stream.start()
    for _ in range(20):
        await stream.write(b"x")
        await asyncio.sleep(0.005)
    stream.close()
    assert sum(m["body"] == b"x" for m in busy.sent[1:]) == 20
    kept_alive = [n for n, m in enumerate(busy.sent) if m.get("body") == sse.KEEPALIVE]
    # A machine that others keep busy may make it quiet, but then it was.
    assert all(busy.moments[n] - busy.moments[n - 1] >= 0.05 for n in kept_alive)


async def test_a_slow_reader_makes_only_its_own_writer_wait() -> None:
    wires = [Wire(), Wire()]
    slow, fast = [EventStream(wire, keepalive=10) for wire in wires]
    await slow.start()
    await fast.start()
    wires[0].open.clear()
    waiting = asyncio.create_task(slow.write(b"x"))
    for _ in range(100):
        await fast.write(b"x")
    assert not waiting.done()
    wires[0].open.set()
    await waiting
    slow.close()
    fast.close()


# logprobs


@pytest.mark.parametrize(
    ("reason", "matched", "last", "kept"),
    [
        ("stop", None, b"", 1),
        ("stop", None, b"}", 2),  # a document that was complete
        ("stop", 7, b"a", 1),
        ("stop", "END", b"a", 2),
        ("length", None, b"a", 2),
    ],
)
def test_a_token_that_is_no_text_has_no_logprob(
    reason: Any, matched: Any, last: bytes, kept: int
) -> None:
    entries = [TokenLogprob(i, -1.0, piece, []) for i, piece in enumerate((b"a", last))]
    finish = Finish(reason=reason, prompt_tokens=1, completion_tokens=2, matched=matched)
    found = text_logprobs(Output(id="r", logprobs=entries, finish=finish))
    assert found is not None
    assert len(found) == kept
    assert text_logprobs(Output(id="r", logprobs=entries)) == entries
    assert text_logprobs(Output(id="r", finish=finish)) is None


# whole answers


def test_logprobs_of_a_whole_answer_are_gathered_in_place() -> None:
    gathered, entry = Gathered(Spoken(None)), TokenLogprob(1, -0.5, b"a", [])
    gathered.add(Output(id="r", text="a", logprobs=[entry]))
    first = gathered.whole(0, logprobs=True).logprobs
    gathered.add(Output(id="r", text="a", logprobs=[entry]))
    assert first == [entry, entry], "0.1.0 copied all of them for every token"
    assert gathered.whole(0, logprobs=True).logprobs is first


def test_logprobs_that_were_not_asked_for_are_none() -> None:
    gathered = Gathered(Spoken(None))
    gathered.add(Output(id="r", text="a"))
    assert gathered.whole(0, logprobs=True).logprobs is None


# the memory of a body


def test_a_body_in_tiny_parts_takes_no_more_memory_than_its_bytes() -> None:
    left = 100_000

    async def receive() -> dict[str, Any]:
        nonlocal left
        left -= 1
        return part(left.to_bytes(3), more=left > 0)

    tracemalloc.start()
    try:
        assert len(asyncio.run(read_body(scope(), receive, 1 << 20))) == 300_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * 300_000, "0.1.0: 45 bytes and more for each part"
