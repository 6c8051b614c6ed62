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


KILLED_BY_POISON = """
import os, sys
from headrace.fleet.host import run
from headrace.fleet.worker import open_engine

def open_fragile(config):
    engine, ready = open_engine(config)
    step = engine.step

    def fragile_step():
        outputs = step()
        for id, sequence in engine._live.items():
            if id.startswith("poison") and sequence.generated >= int(id.partition("-")[2]):
                os._exit(9)
        return outputs

    engine.step = fragile_step
    return engine, ready

sys.exit(run(open_fragile))
"""


@pytest.mark.parametrize("poison", ["poison-0", "poison-12"])
async def test_one_that_kills_engines_ends_and_four_others_say_what_they_would_have_said(
    smollm2_path: Path, tokenizer: Tokenizer, poison: str
) -> None:
    config = WorkerConfig(
        path=str(smollm2_path), model="smollm2-135m", version="test", kv_memory=KV_MEMORY
    )
    command = (sys.executable, "-c", KILLED_BY_POISON)
    service = Dispatcher(Supervisor(config, command=command))
    await service.start()
    try:
        prompts = [tokenizer.encode(f"A story about {n} cats: " + "once " * 60) for n in range(4)]
        wanted = [
            replace(request(f"r{n}", prompt, 60), sampling=SamplingParams(temperature=0.8, seed=n))
            for n, prompt in enumerate(prompts)
        ]
        undisturbed = [await read(service, one) for one in wanted]
        warm = [await read(service, one) for one in wanted]
        begun = [await service.place(one) for one in wanted]
        firsts = [await anext(aiter(generation)) for generation in begun]
        killer = await read(service, request(poison, prompts[0], 60))
        assert killer[-1].finish is not None
        assert killer[-1].finish.reason == "error"
        for n, generation in enumerate(begun):
            outputs = [firsts[n], *[output async for output in generation]]
            assert told(outputs) == told(undisturbed[n])
            assert outputs[-1].finish == warm[n][-1].finish  # the cached tokens, too
            assert outputs[-1].finish.cached_tokens > 0
    finally:
        await service.stop(grace=0)


def told(outputs: list[Output]) -> tuple[str, list[int]]:
    text = "".join(output.text for output in outputs)
    return text, [token for output in outputs for token in output.tokens]
