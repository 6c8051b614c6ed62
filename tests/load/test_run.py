from __future__ import annotations

import pytest

from headrace.load.client import Refused, Timing
from headrace.load.run import run
from headrace.load.workload import Workload

from .fake_server import FakeServer, token, usage

WORKLOAD = Workload(title="", streams=3, requests=7, prompt=4, output=1)


async def test_every_request_is_sent_once() -> None:
    fake, seen = FakeServer([token("a"), usage(4, 1)]), list[Timing]()
    with fake.running() as server:
        timings = await run(WORKLOAD, server, range(100, 999), seed=5, finished=seen.append)
    assert len(timings) == 7
    assert seen == timings
    assert len({str(body["prompt"]) for _, _, body in fake.requests}) == 7


async def test_the_first_failure_ends_the_run() -> None:
    fake = FakeServer([b"no"], status=400)
    with fake.running() as server, pytest.raises(Refused, match="no"):
        await run(WORKLOAD, server, range(100, 999))
