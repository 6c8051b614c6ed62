"""The real worker process, with a tiny model on the numpy backend and with the real one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoModelForCausalLM

from headrace.dispatch.dispatcher import Dispatcher
from headrace.engine.output import Finish, Output
from headrace.engine.request import GenerationRequest, SamplingParams, StopConditions
from headrace.engine.status import EngineStatus
from headrace.fleet.config import WorkerConfig
from headrace.fleet.errors import DoesNotFit, WorkerFailed
from headrace.fleet.messages import Ready
from headrace.fleet.sizes import sizes_for
from headrace.fleet.supervisor import Supervisor
from headrace.fleet.worker import open_engine
from headrace.models.model import open_model
from headrace.ops.cpu import CpuBackend
from headrace.text.tokenizer import TokenizerError
from tests.models.families import FAMILIES
from tests.models.tiny import WIDTH, write_tiny
from tests.text.test_huggingface import byte_level_file

from .conftest import PATIENCE, is_idle

CONTEXT = 256
VOCABULARY = [*sorted(ByteLevel.alphabet()), "ab", "<|end|>"]
OTHER = [*sorted(ByteLevel.alphabet()), "ba", "<|end|>"]
NORMAL, CONTROL = 1, 3


@pytest.fixture(scope="session")
def tiny_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A two-layer Llama whose tokens are bytes."""
    return write_tokenizer(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


def write_tokenizer(path: Path, **keys: object) -> Path:
    """Such a model; `keys` replace those of its tokenizer."""
    end = len(VOCABULARY) - 1
    tokenizer = {
        "tokens": VOCABULARY,
        "token_type": [NORMAL] * end + [CONTROL],
        "merges": ["a b"],
        "pre": "gpt-2",
        "eos_token_id": end,
    }
    metadata = {f"tokenizer.ggml.{key}": value for key, value in (tokenizer | keys).items()}
    return write_tiny(
        path,
        "llama",
        metadata=metadata | {"llama.context_length": CONTEXT},
        extra={"token_embd.weight": (len(VOCABULARY), WIDTH)},
    )


def config(path: Path, **settings: object) -> WorkerConfig:
    return WorkerConfig(path=str(path), model="tiny", version="1", backend="reference", **settings)


def request(name: str, prompt: list[int], max_tokens: int, **sampling: int) -> GenerationRequest:
    return GenerationRequest(
        id=name,
        prompt=prompt,
        sampling=SamplingParams(**sampling),
        stopping=StopConditions(max_tokens=max_tokens, ignore_eos=True),
    )


@pytest.fixture
async def service(tiny_path: Path) -> AsyncIterator[Dispatcher]:
    supervisor = Supervisor(config(tiny_path, max_sequences=8), patience=PATIENCE)
    dispatcher = Dispatcher(supervisor)
    await dispatcher.start()
    yield dispatcher
    await dispatcher.stop(grace=0)


async def read(dispatcher: Dispatcher, wanted: GenerationRequest) -> list[Output]:
    return [output async for output in await dispatcher.place(wanted)]


def tokens_of(outputs: list[Output]) -> list[int]:
    return [token for output in outputs for token in output.tokens]


def finish_of(outputs: list[Output]) -> Finish:
    finish = outputs[-1].finish
    assert finish is not None
    return finish


async def await_idle(dispatcher: Dispatcher) -> EngineStatus:
    async with asyncio.timeout(60):
        while not is_idle(status := await dispatcher.probe(30)):
            pass
    return status


async def test_many_streams_end_with_exact_counts_and_the_same_tokens_as_alone(
    service: Dispatcher,
) -> None:
    wanted = [request(f"r{n}", [n + 1] * (3 + n), 4 + n, seed=n) for n in range(16)]
    together = await asyncio.gather(*[read(service, one) for one in wanted])
    for one, outputs in zip(wanted, together, strict=True):
        finish = finish_of(outputs)
        assert (finish.reason, finish.prompt_tokens) == ("length", len(one.prompt))
        assert finish.completion_tokens == len(tokens_of(outputs)) == one.stopping.max_tokens
        assert tokens_of(await read(service, one)) == tokens_of(outputs)
    status = await await_idle(service)
    assert status.steps > 0
    assert status.generated_tokens == 2 * sum(one.stopping.max_tokens for one in wanted)


async def test_opened_and_dropped_requests_leave_nothing(service: Dispatcher) -> None:
    async def open_and_drop(n: int) -> None:
        generation = await service.place(request(f"r{n}", [n + 1, 2], 200))
        if n % 3:
            await anext(aiter(generation))
        generation.cancel()

    opened = [asyncio.create_task(open_and_drop(n)) for n in range(200)]
    for task in opened[::2]:  # half of them while they wait, or at any other moment
        task.cancel()
    await asyncio.gather(*opened, return_exceptions=True)
    await await_idle(service)
    status = service.status()
    assert (status.queued, status.running) == (0, 0)


async def test_a_request_that_can_never_run_is_an_error_and_nothing_else(
    service: Dispatcher,
) -> None:
    too_long, outside = request("long", [1] * CONTEXT, 5), request("outside", [100_000], 5)
    for wanted in (too_long, outside):
        finish = finish_of(await read(service, wanted))
        assert finish.reason == "refused"
        assert finish.error
    assert finish_of(await read(service, request("good", [1], 5))).reason == "length"


async def test_a_killed_engine_is_replaced_by_one_that_says_the_same(service: Dispatcher) -> None:
    before = tokens_of(await read(service, request("r", [5, 6], 20, seed=7)))
    whole = await read(service, request("whole", [5, 6], 250, seed=8))
    generation = await service.place(request("moved", [5, 6], 250, seed=8))
    outputs = [await anext(aiter(generation))]
    ready = service.status().worker.ready
    assert ready is not None
    os.kill(ready.pid, signal.SIGKILL)
    outputs += [output async for output in generation]
    assert tokens_of(outputs) == tokens_of(whole)
    assert finish_of(outputs).reason == finish_of(whole).reason
    assert tokens_of(await read(service, request("r", [5, 6], 20, seed=7))) == before


def opened(settings: WorkerConfig) -> Ready:
    return open_engine(settings)[1]


def test_ready_tells_what_was_opened(tiny_path: Path) -> None:
    ready = opened(config(tiny_path, max_sequences=4, threads=1))
    assert ready.isa == "numpy"
    assert (ready.model, ready.max_sequences, ready.threads) == ("tiny", 4, 1)
    assert ready.context_length == CONTEXT
    assert ready.blocks == 4 * CONTEXT // 32  # more could never be used
    assert ready.pid == os.getpid()


def test_a_small_cache_limits_the_context(tiny_path: Path) -> None:
    block = 2 * 2 * 2 * 16 * 32 * 4  # keys and values, layers, heads, width, tokens, float32
    ready = opened(config(tiny_path, kv_memory=3 * block + 1))
    assert ready.blocks == 3
    assert ready.context_length == 96


def test_a_shorter_context_can_be_asked_for(tiny_path: Path) -> None:
    assert opened(config(tiny_path, context_length=100)).context_length == 100


def test_a_budget_leaves_the_cache_what_the_rest_does_not_take(tiny_path: Path) -> None:
    block = 2 * 2 * 2 * 16 * 32 * 4
    most = opened(config(tiny_path))
    assert most.memory > 2 * most.blocks * block
    some = opened(config(tiny_path, memory=most.memory - 5 * block))
    assert (some.blocks, some.memory) == (most.blocks - 5, most.memory - 5 * block)
    both = opened(config(tiny_path, memory=most.memory, kv_memory=7 * block))
    assert both.blocks == 7
    assert both.memory < most.memory


def test_weights_quantised_at_load_take_less_memory(tiny_path: Path) -> None:
    as_stored, w8, w4 = (
        opened(config(tiny_path, max_sequences=1, quantization=kind)).memory
        for kind in (None, "w8", "w4")
    )
    assert w4 < w8 < as_stored


def test_int8_keys_leave_room_for_more_blocks(tiny_path: Path) -> None:
    model = open_model(tiny_path)
    wide, narrow = (
        sizes_for(
            config(tiny_path, kv_memory=1 << 16, kv_cache=kind), model, CpuBackend.kv_row_bytes
        ).blocks
        for kind in ("int16", "int8")
    )
    row = 2 * 2 * 32  # layers, heads, tokens
    assert (wide, narrow) == ((1 << 16) // (row * 56), (1 << 16) // (row * 40))


def test_a_budget_that_is_too_small_says_what_is_needed(tiny_path: Path) -> None:
    with pytest.raises(ValueError, match=r"memory is 50 MiB, but tiny needs \d+ MiB at least"):
        open_engine(config(tiny_path, memory=50 << 20))
    most = opened(config(tiny_path))
    with pytest.raises(ValueError, match="kv_memory"):
        open_engine(config(tiny_path, memory=most.memory - 1, kv_memory=1 << 30))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"context_length": CONTEXT + 1}, "context_length is 257"),
        ({"kv_memory": 1000}, "kv_memory is 1000 bytes"),
        ({"max_step_tokens": 4}, "max_step_tokens"),
    ],
)
def test_settings_that_do_not_fit_are_named(
    tiny_path: Path, settings: dict[str, int], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        open_engine(config(tiny_path, **settings))


async def test_guessed_tokens_are_the_same_and_are_counted(tiny_path: Path) -> None:
    wanted = [request(f"r{n}", [n + 1] * (3 + n), 30, seed=n) for n in range(4)]

    async def told(**settings: object) -> tuple[list[list[int]], EngineStatus]:
        dispatcher = Dispatcher(Supervisor(config(tiny_path, max_sequences=4, **settings)))
        await dispatcher.start()
        try:
            outputs = [await read(dispatcher, one) for one in wanted]
            return [tokens_of(each) for each in outputs], await dispatcher.probe(30)
        finally:
            await dispatcher.stop(grace=0)

    plain, status = await told()
    assert status.proposed_tokens == 0
    looked_up, _ = await told(speculate="ngram")
    drafted, status = await told(speculate="draft", draft_path=str(tiny_path), speculate_tokens=3)
    assert looked_up == drafted == plain
    # The steps of so small a model cost what their tokens cost; whether it pays is up to chance.
    assert status.accepted_tokens <= status.proposed_tokens


def test_a_draft_model_counts_in_the_budget(tiny_path: Path) -> None:
    most = opened(config(tiny_path))
    for settings in ({"speculate": "ngram"}, {"speculate": "draft", "draft_path": str(tiny_path)}):
        ready = opened(config(tiny_path, **settings))
        assert ready.blocks == most.blocks
        assert ready.memory > most.memory
    block = 2 * 2 * 2 * 16 * 32 * 4
    both = opened(config(tiny_path, kv_memory=5 * 2 * block + 1, **settings))
    assert both.blocks == 5


def test_a_draft_model_of_another_tokenizer_is_refused(tiny_path: Path, tmp_path: Path) -> None:
    other = write_tokenizer(tmp_path / "other.gguf", merges=["b a"], tokens=OTHER)
    with pytest.raises(DoesNotFit, match="another tokenizer than tiny"):
        open_engine(config(tiny_path, speculate="draft", draft_path=str(other)))


@pytest.fixture
def broken_path(tiny_path: Path, tmp_path: Path) -> Path:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(tiny_path.read_bytes()[:-1000])
    return broken


async def test_a_broken_file_is_a_sentence_with_its_name(broken_path: Path) -> None:
    supervisor = Supervisor(config(broken_path))
    with pytest.raises(WorkerFailed, match=r"broken\.gguf"):
        await supervisor.start()


def test_a_folder_of_safetensors_is_opened_with_its_own_tokenizer(tmp_path: Path) -> None:
    shape = FAMILIES["phi-4"].config()
    shape.vocab_size = 300  # a row for each of the tokenizer's ids
    AutoModelForCausalLM.from_config(shape).save_pretrained(tmp_path)
    settings = config(tmp_path, max_sequences=4, threads=1, context_length=64)
    with pytest.raises(TokenizerError, match=r"tokenizer\.ggml\.model is missing"):
        opened(settings)
    (tmp_path / "tokenizer.json").write_text(json.dumps(byte_level_file()))
    assert opened(settings).context_length == 64
