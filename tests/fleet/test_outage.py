"""What a request is told while its engine is being started again, and what it is charged."""

from __future__ import annotations

import asyncio
import os
import signal
from array import array
from pathlib import Path

from msgspec.structs import replace

from headrace.dispatch.dispatcher import Dispatcher
from headrace.dispatch.terms import USUAL
from headrace.edge.job import Job
from headrace.engine.output import Output

from .conftest import MakeSupervisor, request

TOKENS = 300


class Texts:
    """Keeps what a job's choices say."""

    def __init__(self, choices: int) -> None:
        self.said = [""] * choices
        self.begun = asyncio.Event()

    async def placed(self) -> None: ...

    async def deliver(self, index: int, output: Output, *, more: bool) -> None:
        self.said[index] += output.text
        self.begun.set()


def job(dispatcher: Dispatcher, name: str, choices: int) -> Job:
    requests = [
        replace(request(f"{name}-{n}", TOKENS), prompt=array("i", [1, 2, 3]))
        for n in range(choices)
    ]
    return Job(dispatcher, requests, USUAL)


async def test_a_load_of_six_seconds_is_a_pause_for_choices_that_run_and_for_all_that_wait(
    make_supervisor: MakeSupervisor, tmp_path: Path
) -> None:
    supervisor = make_supervisor(str(tmp_path / "model.slow"), max_sequences=2)
    dispatcher = Dispatcher(supervisor)
    await dispatcher.start()
    jobs = [job(dispatcher, "four", 4), *[job(dispatcher, f"one{n}", 1) for n in range(3)]]
    sinks = [Texts(len(each.choices)) for each in jobs]
    running = [asyncio.create_task(each.run(sink)) for each, sink in zip(jobs, sinks, strict=True)]
    await sinks[0].begun.wait()
    ready = supervisor.ready
    assert ready is not None
    os.kill(ready.pid, signal.SIGKILL)
    await asyncio.gather(*running)
    whole = "".join(f"t{i} " for i in range(TOKENS))
    assert [sink.said for sink in sinks] == [[whole] * len(sink.said) for sink in sinks]
    for each in jobs:
        assert each.fault is None
        for choice in each.choices:
            assert choice.finish is not None
            assert choice.finish.completion_tokens == choice.completion_tokens == TOKENS
    assert supervisor.status().starts == 2
    await dispatcher.stop(grace=0)
