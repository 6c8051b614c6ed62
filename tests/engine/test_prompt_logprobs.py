"""Logprobs of a prompt's own tokens: right, and the same bits however the prompt is cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.engine.blocks import BlockPool
from headrace.engine.loop import Engine
from headrace.engine.output import TokenLogprob
from headrace.engine.request import GenerationRequest
from headrace.engine.runner import Row, rows_of, sampling_of
from headrace.engine.scheduler import Plan, Scheduler
from headrace.engine.sequence import Sequence
from headrace.ops.cpu import CpuBackend, available_isas

from . import tiny
from .fakes import EOS, VOCAB, Answers, FakeTextStream, answer, fake_engine, make_engine, request

PROMPT = np.random.default_rng(5).integers(4, VOCAB, 90).tolist()


def scored(prompt: list[int] = PROMPT, id: str = "r", **options: object) -> GenerationRequest:
    kept = {"logprobs": 3, "prompt_logprobs": True, "max_tokens": 5, "ignore_eos": True}
    return request(id, prompt, **{**kept, **options})


def prompt_logprobs(answers: Answers, id: str = "r") -> list[TokenLogprob]:
    """They come once, with the first output."""
    first, *rest = answers.outputs[id]
    assert all(output.prompt_logprobs is None for output in rest)
    assert first.prompt_logprobs is not None
    return first.prompt_logprobs


def token_by_token(engine: Engine, prompt: list[int]) -> list[TokenLogprob]:
    """Each token generated, by a bias that leaves no other, from the prompt before it."""
    for at in range(1, len(prompt)):
        options = {"logit_bias": {prompt[at]: 100.0}, "logprobs": 3, "max_tokens": 1}
        engine.submit(request(str(at), prompt[:at], **options))
    answers = Answers().drain(engine)
    return [answers.logprobs(str(at))[0] for at in range(1, len(prompt))]


@pytest.fixture(params=available_isas())
def engine(request: pytest.FixtureRequest) -> Engine:
    return make_engine(tiny.load(CpuBackend(request.param), blocks=128), blocks=128)


def test_they_are_those_of_scoring_token_by_token_bit_for_bit(engine: Engine) -> None:
    first, *rest = prompt_logprobs(answer(engine, scored()))
    assert (first.token, first.logprob, first.top) == (PROMPT[0], None, [])
    assert rest == token_by_token(engine, PROMPT)


@pytest.mark.parametrize("max_sequences", [1, 3, 32])
def test_chunks_and_company_change_no_bit(max_sequences: int) -> None:
    whole = prompt_logprobs(answer(fast(), scored()))
    beside = [scored(PROMPT[i:], f"other-{i}", temperature=1.0) for i in range(1, 4)]
    answers = answer(fast(max_sequences=max_sequences), *beside, scored(), request("plain"))
    assert prompt_logprobs(answers) == whole
    assert prompt_logprobs(answers, "other-2")[1:] != whole[3:]  # it depends on what came before
    assert all(output.prompt_logprobs is None for output in answers.outputs["plain"])


def test_the_answer_is_that_of_a_request_that_does_not_ask() -> None:
    options = {"temperature": 1.0, "seed": 4, "repetition_penalty": 1.2, "min_tokens": 3}
    asking = answer(fast(), scored(**options))
    plain = answer(fast(), scored(**options, prompt_logprobs=False))
    assert asking.tokens("r") == plain.tokens("r")
    assert asking.logprobs("r") == plain.logprobs("r")


@pytest.mark.parametrize("max_tokens", [0, 1])
def test_a_prompt_can_be_scored_without_an_answer(max_tokens: int) -> None:
    answers = answer(fast(), scored(max_tokens=max_tokens))
    assert len(answers.tokens("r")) == answers.finish("r").completion_tokens == max_tokens
    assert answers.finish("r").reason == "length"
    assert [entry.token for entry in prompt_logprobs(answers)] == PROMPT


def test_preemption_scores_nothing_twice() -> None:
    alone = answer(fast(), scored(max_tokens=40))
    small = fast(blocks=8)
    old = [scored([5 + i] * 30, f"old-{i}", max_tokens=90) for i in range(2)]
    answers = answer(small, *old, scored(max_tokens=40))
    assert small.status().preemptions == 1
    assert answers.outputs["r"] == alone.outputs["r"]


def fast(*, blocks: int = 128, **options: object) -> Engine:
    return make_engine(tiny.load(CpuBackend(), blocks=blocks), blocks=blocks, **options)


class WatchedScheduler(Scheduler):
    """The real one; a step's logits must fit into the memory that is kept for them."""

    def plan(self) -> Plan:
        plan = super().plan()
        assert plan.rows == len(rows_of(plan)) <= self._max_sequences
        return plan


@settings(max_examples=40)
@given(
    prompts=st.lists(st.tuples(st.integers(1, 70), st.booleans()), min_size=1, max_size=8),
    max_sequences=st.integers(1, 5),
    spare=st.integers(0, 20),
)
def test_no_step_wants_more_rows_than_there_are(
    prompts: list[tuple[int, bool]], max_sequences: int, spare: int
) -> None:
    engine = fake_engine(
        blocks=8,
        context_length=256,
        max_sequences=max_sequences,
        max_step_tokens=max_sequences + spare,
        scheduler=WatchedScheduler,
    )
    asked = [
        scored([7 + i] * length, str(i), prompt_logprobs=wanted, temperature=1.0, max_tokens=40)
        for i, (length, wanted) in enumerate(prompts)
    ]
    answers = answer(engine, *asked)
    for each in asked:
        assert answers.finish(each.id).reason == "length"
        if each.sampling.prompt_logprobs:
            entries = prompt_logprobs(answers, each.id)
            assert [entry.token for entry in entries] == each.prompt
            assert [entry.logprob for entry in entries].count(None) == 1


def test_a_row_that_scores_forces_its_token() -> None:
    sequence = Sequence(
        scored([5, 6, 7], repetition_penalty=2.0),
        BlockPool(4),
        FakeTextStream(()),
        frozenset({EOS}),
    )
    sampling = sampling_of([Row(sequence, 2), Row(sequence)])
    changes = sampling.adjustments
    assert changes is not None
    assert changes.row.tolist() == [0, 1, 1, 1]
    assert changes.token.tolist() == [7, 5, 6, 7]
    assert changes.add.tolist() == [np.float32(1e38), 0, 0, 0]
    assert sampling.top_logprobs.tolist() == [3, 3]


def test_prompt_logprobs_need_logprobs() -> None:
    answers = answer(fast(), scored(logprobs=None))
    assert answers.finish("r").error == "prompt_logprobs needs logprobs"
