from __future__ import annotations

import asyncio

from headrace.load.client import LoadError, Request, Timing
from headrace.load.replay import replay
from headrace.load.trace import Arrival

from .fake_server import FakeServer, token, usage


def arrival(at: float, first: int) -> Arrival:
    return Arrival(at=at, request=Request(prompt=[first, 2], output=1), known=0)


async def test_each_is_sent_at_its_time_whatever_the_order_of_answers() -> None:
    fake = FakeServer([token("a"), usage(2, 1)])
    loop = asyncio.get_running_loop()
    with fake.running() as server:
        start = loop.time()
        timings = await replay([arrival(0.4, 1), arrival(0, 2), arrival(0.2, 3)], server, 2)
        assert loop.time() - start >= 0.2
    assert sorted(body["prompt"][0] for _, _, body in fake.requests) == [1, 2, 3]
    last, first, second = [timing.start for timing in timings if isinstance(timing, Timing)]
    assert first < second < last


async def test_a_failure_is_told_and_stops_nothing() -> None:
    fake, done = FakeServer([b"broken"], status=500), list[None]()
    with fake.running() as server:
        timings = await replay(
            [arrival(0, 1), arrival(0, 2)], server, 1, finished=lambda: done.append(None)
        )
    assert [type(timing) for timing in timings] == [LoadError, LoadError]
    assert len(done) == 2
