"""A supervisor over the toy worker, with short patience, stopped at the end of the test."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from array import array
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from headrace.engine.output import Output
from headrace.engine.request import GenerationRequest, SamplingParams, StopConditions
from headrace.engine.status import EngineStatus
from headrace.fleet.config import WorkerConfig
from headrace.fleet.mailbox import Mailbox
from headrace.fleet.supervisor import Patience, Supervisor

TOY_COMMAND = (sys.executable, str(Path(__file__).with_name("fake_worker.py")))
PATIENCE = Patience(
    start=60, beat=0.1, silent_beats=100, backoff_first=0.05, backoff_most=0.2, stop=5
)

MakeSupervisor = Callable[..., Supervisor]


@pytest.fixture
async def make_supervisor() -> AsyncIterator[MakeSupervisor]:
    made: list[Supervisor] = []

    def make(path: str = "toy", patience: Patience = PATIENCE, **config: int) -> Supervisor:
        told = WorkerConfig(path=path, model="toy", version="1", **config)
        made.append(Supervisor(told, command=TOY_COMMAND, patience=patience))
        return made[-1]

    yield make
    for supervisor in made:
        await supervisor.stop()


def request(name: str, max_tokens: int = 5, first_token: int = 1) -> GenerationRequest:
    return GenerationRequest(
        id=name,
        prompt=array("i", [first_token, 2, 3]),
        sampling=SamplingParams(),
        stopping=StopConditions(max_tokens=max_tokens),
    )


async def read_all(mailbox: Mailbox) -> list[Output]:
    outputs = []
    while (output := await mailbox.get()) is not None:
        outputs.append(output)
    return outputs


async def until(condition: Callable[[], bool], supervisor: Supervisor) -> None:
    """Wait for a condition that changes when the supervisor says that something did."""
    changed = asyncio.Event()
    before = supervisor.on_change

    def note() -> None:
        before()
        changed.set()

    supervisor.on_change = note
    try:
        async with asyncio.timeout(60):
            while not condition():
                changed.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), 0.05)
    finally:
        supervisor.on_change = before


def is_idle(status: EngineStatus) -> bool:
    """Whether nothing runs, waits or holds a block."""
    nothing = status.running == 0 and status.waiting == 0
    return nothing and status.blocks_free + status.blocks_cached == status.blocks_total
