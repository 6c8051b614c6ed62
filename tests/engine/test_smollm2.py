"""The whole engine on the real default model and the native kernels."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pytest

from headrace.engine.loop import Engine
from headrace.engine.request import GenerationRequest
from headrace.models.model import Model
from headrace.ops.backend import Executable, Limits
from headrace.ops.cpu import CpuBackend
from headrace.text.tokenizer import Tokenizer

from .fakes import answer, make_engine, request

BLOCKS, SEQUENCES, STEP_TOKENS, CONTEXT = 200, 32, 256, 512


class MakeEngine(Protocol):
    def __call__(
        self,
        threads: int,
        *,
        blocks: int = BLOCKS,
        step_tokens: int = STEP_TOKENS,
        synchronous: bool = False,
        caching: bool = False,
    ) -> Engine: ...


@pytest.fixture(scope="module")
def engine_on(model: Model, tokenizer: Tokenizer) -> MakeEngine:
    """Makes an engine on that many threads; one load for each."""
    loaded: dict[int, Executable] = {}

    def make(
        threads: int,
        *,
        blocks: int = BLOCKS,
        step_tokens: int = STEP_TOKENS,
        synchronous: bool = False,
        caching: bool = False,
    ) -> Engine:
        if threads not in loaded:
            limits = Limits(tokens=STEP_TOKENS, sequences=SEQUENCES, blocks=BLOCKS, threads=threads)
            loaded[threads] = CpuBackend().load(model.program, model.weights, limits)
        return make_engine(
            loaded[threads],
            blocks=blocks,
            context_length=CONTEXT,
            max_sequences=SEQUENCES,
            max_step_tokens=step_tokens,
            vocab_size=model.program.vocab_size,
            synchronous=synchronous,
            caching=caching,
            tokenizer=tokenizer,
        )

    return make


def asked(tokenizer: Tokenizer, id: str = "r", **options: object) -> GenerationRequest:
    prompt = tokenizer.encode("The river rose all night, and in the morning the mill")
    return request(
        id, prompt, **{"max_tokens": 40, "logprobs": 5, "temperature": 1.0, "seed": 5, **options}
    )


def others(tokenizer: Tokenizer) -> list[GenerationRequest]:
    rng = np.random.default_rng(3)
    return [
        request(
            f"other-{i}",
            rng.integers(20, tokenizer.vocab_size, rng.integers(1, 60)).tolist(),
            max_tokens=int(rng.integers(5, 45)),
            temperature=float(rng.uniform(0, 1.2)),
            seed=i,
        )
        for i in range(31)
    ]


def test_alone_among_31_others_and_on_two_threads_are_one_answer_bit_for_bit(
    engine_on: MakeEngine, tokenizer: Tokenizer
) -> None:
    options = {}, {"temperature": 0.0}, {"top_p": 0.8, "repetition_penalty": 1.2}
    mine = [asked(tokenizer, f"r{n}", **each) for n, each in enumerate(options)]
    beside = others(tokenizer)[3:]
    crowds = (
        answer(engine_on(1), *beside[:9], *mine, *beside[9:]),
        answer(engine_on(2), *beside[:20], *mine, *beside[20:]),
    )
    for each in mine:
        alone = answer(engine_on(1), each)
        for answers in (answer(engine_on(2), each), *crowds):
            assert answers.outputs[each.id] == alone.outputs[each.id]


def test_in_chunks_preempted_and_in_plain_order_are_one_answer_bit_for_bit(
    engine_on: MakeEngine, tokenizer: Tokenizer
) -> None:
    prompt = np.random.default_rng(1).integers(20, tokenizer.vocab_size, 100).tolist()
    options = {"temperature": 1.0, "logprobs": 3, "seed": 2, "ignore_eos": True}
    mine = request("r", prompt, max_tokens=40, **options)
    older = [request(f"old-{i}", prompt[:30], max_tokens=60, ignore_eos=True) for i in range(2)]
    whole = answer(engine_on(2), mine)

    for step_tokens in (SEQUENCES, 41):
        chunked = answer(engine_on(2, step_tokens=step_tokens), mine)
        assert chunked.outputs["r"] == whole.outputs["r"]

    small = engine_on(2, blocks=8)
    preempted = answer(small, *older, mine)
    assert small.status().preemptions == 1  # of the youngest, which is mine
    assert preempted.outputs["r"] == whole.outputs["r"]

    plain = answer(engine_on(2, blocks=8, synchronous=True), *older, mine)
    assert plain.outputs["r"] == whole.outputs["r"]
    for id in ("old-0", "old-1"):
        assert plain.outputs[id] == preempted.outputs[id]


@pytest.mark.parametrize("step_tokens", [STEP_TOKENS, 41])
def test_a_hit_is_a_miss_bit_for_bit(
    engine_on: MakeEngine, tokenizer: Tokenizer, step_tokens: int
) -> None:
    """After another's equal beginning, after its own answer, and beside its twin."""
    prompt = np.random.default_rng(1).integers(20, tokenizer.vocab_size, 150).tolist()
    options = {"temperature": 1.0, "logprobs": 3, "ignore_eos": True, "max_tokens": 40}
    mine, twin = request("r", prompt, **options), request("twin", prompt, **options)
    miss = answer(engine_on(2), mine)
    longer = request("longer", [*prompt, *miss.tokens("r"), 50], **options)
    missed = answer(engine_on(2), longer)

    engine = engine_on(2, step_tokens=step_tokens, caching=True)
    answer(engine, request("before", prompt[:100], **options))
    both = answer(engine, mine, twin, *others(tokenizer)[:8])
    after = answer(engine, longer)
    assert (both.finish("r").cached_tokens, both.finish("twin").cached_tokens) == (96, 128)
    assert after.finish("longer").cached_tokens == 160
    for hit, cold, id, twin_id in (
        (both, miss, "r", "r"),
        (both, miss, "twin", "r"),
        (after, missed, "longer", "longer"),
    ):
        assert hit.tokens(id) == cold.tokens(twin_id)
        assert hit.logprobs(id) == cold.logprobs(twin_id)


def test_one_that_gave_way_to_a_higher_class_is_uninterrupted_bit_for_bit(
    engine_on: MakeEngine, tokenizer: Tokenizer
) -> None:
    options = {"temperature": 1.0, "logprobs": 3, "ignore_eos": True, "max_tokens": 60}
    prompt = np.random.default_rng(2).integers(20, tokenizer.vocab_size, 70).tolist()
    mine = request("r", prompt, priority=-1, **options)
    alone = answer(engine_on(2), mine)
    engine = engine_on(2, blocks=10, caching=True)
    younger = [request(str(i), [60 + i] * 61, **options) for i in range(2)]
    answers = answer(engine, mine, *younger)
    assert engine.status().preemptions == 1
    assert engine.status().hit_tokens > 0  # of its own, when it came back
    assert answers.outputs["r"] == alone.outputs["r"]


def test_a_prompts_own_logprobs_are_those_of_scoring_token_by_token_bit_for_bit(
    engine_on: MakeEngine, tokenizer: Tokenizer
) -> None:
    text = "The river rose all night, and in the morning the mill stood in it to the door. " * 4
    prompt = tokenizer.encode(text)
    scoring = {"logprobs": 5, "max_tokens": 2, "ignore_eos": True}
    mine = request("r", prompt, prompt_logprobs=True, **scoring)
    scored = answer(engine_on(2), mine)
    first, *rest = scored.outputs["r"][0].prompt_logprobs or []
    assert (first.token, first.logprob) == (prompt[0], None)

    forced = [
        request(str(at), prompt[:at], logit_bias={prompt[at]: 100.0}, logprobs=5, max_tokens=1)
        for at in range(1, len(prompt))
    ]
    one_by_one = answer(engine_on(1), *forced)
    assert rest == [one_by_one.logprobs(str(at))[0] for at in range(1, len(prompt))]

    plain = answer(engine_on(2), request("r", prompt, **scoring))
    assert plain.tokens("r") == scored.tokens("r")
    assert plain.logprobs("r") == scored.logprobs("r")

    small = engine_on(2, blocks=8)
    older = [request(f"old-{i}", prompt[:30], max_tokens=60, ignore_eos=True) for i in range(2)]
    assert answer(small, *older, mine).outputs["r"] == scored.outputs["r"]


def test_a_greedy_answer_makes_sense(engine_on: MakeEngine, tokenizer: Tokenizer) -> None:
    prompt = tokenizer.encode("The capital of France is")
    answers = answer(engine_on(2), request("r", prompt, max_tokens=8, logprobs=1))
    assert "Paris" in answers.text("r")
    for entry in answers.logprobs("r"):
        assert entry.top[0] == (entry.token, entry.logprob, entry.piece)
    assert b"".join(e.piece for e in answers.logprobs("r")).decode() == answers.text("r")


def test_32_streams_end_with_exact_counts_and_leave_no_block(
    engine_on: MakeEngine, tokenizer: Tokenizer
) -> None:
    engine = engine_on(2)
    requests = [
        asked(tokenizer, str(i), seed=i, max_tokens=1 + i, ignore_eos=True) for i in range(32)
    ]
    answers = answer(engine, *requests)
    for i in range(32):
        assert len(answers.tokens(str(i))) == 1 + i == answers.finish(str(i)).completion_tokens
        assert answers.finish(str(i)).reason == "length"
    status = engine.status()
    assert status.blocks_free + status.blocks_cached == BLOCKS
