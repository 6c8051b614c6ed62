"""The real model on the native kernels, in its own process."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from headrace.dispatch.dispatcher import Dispatcher
from headrace.engine.output import Output
from headrace.engine.request import GenerationRequest, SamplingParams, StopConditions
from headrace.fleet.config import WorkerConfig
from headrace.fleet.supervisor import Patience, Supervisor
from headrace.grammar import regex
from headrace.models.model import open_model
from headrace.text.tokenizer import Tokenizer

from .conftest import is_idle

KV_MEMORY = 256 << 20


@pytest.fixture
async def service(smollm2_path: Path) -> AsyncIterator[Dispatcher]:
    config = WorkerConfig(
        path=str(smollm2_path), model="smollm2-135m", version="test", kv_memory=KV_MEMORY
    )
    dispatcher = Dispatcher(Supervisor(config))
    await dispatcher.start()
    yield dispatcher
    await dispatcher.stop(grace=0)


@pytest.fixture(scope="module")
def tokenizer(smollm2_path: Path) -> Tokenizer:
    return Tokenizer.from_gguf(open_model(smollm2_path).metadata)


def request(name: str, prompt: list[int], max_tokens: int) -> GenerationRequest:
    return GenerationRequest(
        id=name,
        prompt=prompt,
        sampling=SamplingParams(temperature=0),
        stopping=StopConditions(max_tokens=max_tokens, ignore_eos=True),
    )


async def read(dispatcher: Dispatcher, wanted: GenerationRequest) -> list[Output]:
    return [output async for output in await dispatcher.place(wanted)]


def most_held(pid: int) -> int:
    """Bytes: the most memory the process has ever had."""
    status = Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return int(fields["VmHWM"].split()[0]) * 1024


@pytest.mark.parametrize("target_itl", [None, 5.0], ids=["", "with prompts beside the steps"])
async def test_a_budget_is_held_while_the_cache_is_full(
    smollm2_path: Path, target_itl: float | None
) -> None:
    budget = 440 << 20
    config = WorkerConfig(
        path=str(smollm2_path),
        model="smollm2-135m",
        version="test",
        memory=budget,
        target_itl=target_itl,
    )
    dispatcher = Dispatcher(Supervisor(config))
    await dispatcher.start()
    try:
        ready = dispatcher.status().worker.ready
        assert ready is not None
        assert 0.98 * budget < ready.memory <= budget
        prompts = [[n + 100] * 250 for n in range(16)]
        assert ready.blocks < 16 * 9  # more than all can have
        wanted = [request(f"r{n}", prompt, 16) for n, prompt in enumerate(prompts)]
        await asyncio.gather(*[read(dispatcher, one) for one in wanted])
        assert 0.6 * budget < most_held(ready.pid) <= budget
    finally:
        await dispatcher.stop(grace=0)


TELLS_WHAT_IT_LOADED = """
import atexit, runpy, sys
from pathlib import Path

atexit.register(lambda: Path(sys.argv[1]).write_text("\\n".join(sys.modules)))
runpy.run_module("headrace.fleet.worker", run_name="__main__")
"""


async def test_a_worker_loads_no_settings(smollm2_path: Path, tmp_path: Path) -> None:
    """They take a sixth of its start; it is told all that it needs."""
    told = tmp_path / "modules"
    config = WorkerConfig(
        path=str(smollm2_path), model="smollm2-135m", version="test", kv_memory=KV_MEMORY
    )
    command = (sys.executable, "-c", TELLS_WHAT_IT_LOADED, str(told))
    dispatcher = Dispatcher(Supervisor(config, command=command, patience=Patience(stop=60)))
    await dispatcher.start()
    await read(dispatcher, replace(request("r", [1], 8), grammar=regex("a+")))
    await dispatcher.stop()
    loaded = {name.partition(".")[0] for name in told.read_text().split()}
    assert "llguidance" in loaded
    assert not {name for name in loaded if name.startswith(("pydantic", "dotenv"))}


async def test_it_knows_a_capital(service: Dispatcher, tokenizer: Tokenizer) -> None:
    prompt = tokenizer.encode("The capital of France is")
    outputs = await read(service, request("r", prompt, 8))
    assert "".join(output.text for output in outputs).startswith(" Paris")


async def test_thirty_two_streams_have_exact_counts_and_two_hundred_drops_leave_nothing(
    service: Dispatcher, tokenizer: Tokenizer
) -> None:
    prompts = [tokenizer.encode(f"Number {n} is") for n in range(32)]
    wanted = [request(f"r{n}", prompt, 8 + n % 5) for n, prompt in enumerate(prompts)]
    for one, outputs in zip(
        wanted, await asyncio.gather(*[read(service, one) for one in wanted]), strict=True
    ):
        finish = outputs[-1].finish
        assert finish is not None
        assert (finish.reason, finish.prompt_tokens) == ("length", len(one.prompt))
        assert finish.completion_tokens == one.stopping.max_tokens
        assert sum(len(output.tokens) for output in outputs) == one.stopping.max_tokens

    async def open_and_drop(n: int) -> None:
        (await service.place(request(f"d{n}", prompts[n % 32], 1000))).cancel()

    await asyncio.gather(*[open_and_drop(n) for n in range(200)])
    async with asyncio.timeout(60):
        while not is_idle(await service.probe(30)) or service.status().running:
            pass
    assert service.status().queued == 0
