from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from headrace.engine.budget import CHUNK_BESIDE, StepBudget
from headrace.engine.loop import Engine
from headrace.engine.output import Finish
from headrace.engine.request import GenerationRequest
from headrace.ops.backend import Batch, NonFiniteLogits, Sampled, Sampling, Slice
from headrace.text.pipeline import TextPipeline

from .fakes import (
    EOS,
    VOCAB,
    Answers,
    FakeExecutable,
    FakeText,
    Sliced,
    answer,
    fake_engine,
    make_engine,
    request,
    saying,
)

PROMPT = [65, 66, 67]


def says(text: str, *, synchronous: bool = False, then_eos: bool = True) -> Engine:
    model = saying(text, after=len(PROMPT), then_eos=then_eos)
    return fake_engine(model, synchronous=synchronous)


@pytest.fixture(params=[False, True], ids=["overlapped", "synchronous"])
def synchronous(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_the_end_of_sequence_ends_it_without_text_and_is_counted(synchronous: bool) -> None:
    answers = answer(says("Hello", synchronous=synchronous), request(max_tokens=20))
    assert answers.text("r") == "Hello"
    assert answers.finish("r") == Finish(reason="stop", prompt_tokens=3, completion_tokens=6)


def test_max_tokens_ends_it_and_what_was_held_back_comes_out(synchronous: bool) -> None:
    asked = request(max_tokens=4, stop=("lot",))
    answers = answer(says("Hello", synchronous=synchronous), asked)
    assert answers.text("r") == "Hell"
    assert answers.finish("r") == Finish(reason="length", prompt_tokens=3, completion_tokens=4)


def test_a_stop_text_ends_it_and_the_token_made_meanwhile_is_never_seen(synchronous: bool) -> None:
    engine = says("alpha beta gamma", synchronous=synchronous)
    answers = answer(engine, request(max_tokens=30, stop=("ta g", "gamma")))
    assert answers.text("r") == "alpha be"
    assert len(answers.tokens("r")) == len("alpha beta g")
    assert answers.finish("r") == Finish(
        reason="stop", prompt_tokens=3, completion_tokens=12, matched="ta g"
    )
    assert engine.status().generated_tokens == 12
    assert engine.status().blocks_free == engine.status().blocks_total


def test_a_stop_text_completed_by_the_last_token_is_a_stop(synchronous: bool) -> None:
    answers = answer(says("Hello", synchronous=synchronous), request(max_tokens=4, stop=("ll",)))
    assert answers.text("r") == "He"
    assert answers.finish("r").reason == "stop"
    assert answers.finish("r").matched == "ll"


def test_a_stop_text_that_only_the_end_of_the_tokens_completes_is_a_stop(
    synchronous: bool,
) -> None:
    class Halves(FakeText):
        def piece(self, token_id: int) -> bytes:
            return b"\xc3"  # begins a character

    engine = says("Hello", synchronous=synchronous)
    engine._text_streams = partial(TextPipeline, Halves())
    answers = answer(engine, request(max_tokens=1, stop=("\ufffd",)))
    assert answers.text("r") == ""
    assert answers.finish("r").reason == "stop"
    assert answers.finish("r").matched == "\ufffd"


def test_a_stop_id_ends_it_without_text_and_is_named(synchronous: bool) -> None:
    answers = answer(says("Hello", synchronous=synchronous), request(stop_token_ids=(ord("o"),)))
    assert answers.text("r") == "Hell"
    assert answers.finish("r").matched == ord("o")
    assert answers.finish("r").completion_tokens == 5


def test_ignore_eos_gives_exactly_max_tokens(synchronous: bool) -> None:
    asked = request(max_tokens=20, ignore_eos=True)
    answers = answer(says("Hello", synchronous=synchronous), asked)
    assert len(answers.tokens("r")) == 20
    assert EOS in answers.tokens("r")
    assert answers.finish("r") == Finish(reason="length", prompt_tokens=3, completion_tokens=20)


def test_min_tokens_keeps_every_ending_away_until_then(synchronous: bool) -> None:
    engine = says("Hello", synchronous=synchronous)
    asked = request(max_tokens=20, min_tokens=9, stop=("el", "l"), stop_token_ids=(ord("H"),))
    answers = answer(engine, asked)
    assert len(answers.tokens("r")) == 20
    assert EOS not in answers.tokens("r")[:9]
    assert ord("H") not in answers.tokens("r")[:9]


def test_min_tokens_puts_an_end_off_by_exactly_that_many(synchronous: bool) -> None:
    always_eos = np.where(np.arange(VOCAB) == EOS, 20, 0).astype(np.float32)
    engine = fake_engine(lambda history: always_eos, synchronous=synchronous)
    asked = [request(str(n), max_tokens=8, min_tokens=n) for n in range(9)]
    answers = answer(engine, *asked)
    for n in range(8):
        assert [token == EOS for token in answers.tokens(str(n))] == [False] * n + [True]
        assert answers.finish(str(n)).reason == "stop"
    assert EOS not in answers.tokens("8")
    assert answers.finish("8") == Finish(reason="length", prompt_tokens=3, completion_tokens=8)


@pytest.mark.parametrize(("min_tokens", "tokens"), [(1, 2), (2, 6)])
def test_a_stop_text_counts_from_the_token_after_min_tokens(
    synchronous: bool, min_tokens: int, tokens: int
) -> None:
    asked = request(max_tokens=20, min_tokens=min_tokens, stop=("e",))
    answers = answer(says("Hello", synchronous=synchronous), asked)
    assert answers.finish("r").completion_tokens == tokens


def test_a_stop_text_counts_again_after_min_tokens(synchronous: bool) -> None:
    engine = says("ab ab ab", synchronous=synchronous)
    answers = answer(engine, request(max_tokens=20, min_tokens=2, stop=("ab",)))
    assert answers.text("r") == "ab "
    assert answers.finish("r").completion_tokens == 5


def test_logprobs_are_of_the_model_and_parallel_to_tokens() -> None:
    engine = says("Hi")
    answers = answer(
        engine,
        request("with", logprobs=2, logit_bias={ord("H"): -5.0}),
        request("zero", logprobs=0),
        request("none"),
    )
    first, *_ = entries = answers.logprobs("with")
    assert len(entries) == len(answers.tokens("with")) == 3
    certain = -math.log1p((VOCAB - 1) * math.exp(-20))
    assert (first.token, first.piece) == (ord("H"), b"H")
    assert first.logprob == pytest.approx(certain, abs=1e-6)
    assert [(i, piece) for i, _, piece in first.top] == [(ord("H"), b"H"), (0, b"\0")]
    assert first.top[1][1] == pytest.approx(certain - 20, rel=1e-6)
    assert [entry.top for entry in answers.logprobs("zero")] == [[], [], []]
    assert all(output.logprobs is None for output in answers.outputs["none"])


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        (request(prompt=[]), "prompt is empty"),
        (request(prompt=[1, VOCAB]), f"prompt holds token id {VOCAB}"),
        (request(prompt=[-1]), "prompt holds token id -1"),
        (request(prompt=[1] * 64), "no room"),
        (request(prompt=[1] * 60, max_tokens=5), "together"),
        (request(max_tokens=-1), "max_tokens is -1"),
        (request(logit_bias={VOCAB: 1.0}), "logit_bias"),
        (request(stop_token_ids=(VOCAB,)), "stop_token_ids"),
        (request(temperature=math.nan), "temperature"),
        (request(logit_bias={1: math.inf}), "logit_bias"),
        (request(repetition_penalty=0.0), "repetition_penalty"),
        (request(top_k=2**31), "top_k"),
    ],
)
def test_what_can_never_run_is_refused(bad: GenerationRequest, fault: str) -> None:
    engine = fake_engine(blocks=8, context_length=64)
    answers = answer(engine, bad, request("good"))
    finish = answers.finish("r")
    assert (finish.reason, finish.completion_tokens) == ("refused", 0)
    assert fault in (finish.error or "")
    assert answers.finish("good").reason == "length"


def test_an_id_is_alive_once() -> None:
    engine = fake_engine()
    engine.submit(request())
    with pytest.raises(ValueError, match="alive"):
        engine.submit(request())


def test_a_cancel_is_answered_with_its_counts_and_frees_within_a_step(synchronous: bool) -> None:
    engine = fake_engine(synchronous=synchronous)
    engine.submit(request(max_tokens=500))
    answers = Answers()
    while len(answers.outputs.get("r", [])) < 5:
        answers.take(engine.step())
    engine.cancel("r")
    engine.cancel("r")
    assert engine.status().running == 0
    answers.take(engine.step())
    assert answers.finish("r") == Finish(reason="cancelled", prompt_tokens=3, completion_tokens=5)
    assert engine.status().blocks_free == engine.status().blocks_total
    assert not engine.has_work


def test_a_cancel_in_the_waiting_line_and_of_nobody() -> None:
    engine = fake_engine(max_sequences=1)
    engine.submit(request("a"))
    engine.submit(request("b"))
    answers = Answers()
    answers.take(engine.step())
    engine.cancel("b")
    engine.cancel("nobody")
    answers.drain(engine)
    assert answers.finish("b").reason == "cancelled"
    assert answers.finish("a").reason == "length"


def test_200_submits_and_cancels_leave_all_blocks_free() -> None:
    engine = fake_engine(blocks=12, max_sequences=8)
    answers = Answers()
    for i in range(200):
        engine.submit(request(str(i), prompt=[i % VOCAB] * (1 + i % 50), max_tokens=200))
        if i % 3 == 0:
            answers.take(engine.step())
        if i % 2:
            engine.cancel(str(i - 1))
            engine.cancel(str(i))
    answers.drain(engine)
    status = engine.status()
    assert (status.running, status.waiting) == (0, 0)
    assert status.blocks_free + status.blocks_cached == status.blocks_total == 12
    assert {answers.finish(str(i)).reason for i in range(200)} == {"cancelled"}


def test_a_step_that_fails_costs_its_sequences_only() -> None:
    executable = FakeExecutable(64)
    engine = make_engine(executable, blocks=64, max_sequences=2)
    for id in "abc":
        engine.submit(request(id))
    answers = Answers()
    answers.take(engine.step())
    executable.fail = RuntimeError("no key for 'words of another caller'")
    answers.drain(engine)
    for id in "ab":
        assert answers.finish(id).reason == "error"
        error = answers.finish(id).error or ""
        assert "a fault in the engine (RuntimeError)" in error
        assert "words" not in error
    assert answers.finish("c").reason == "length"
    assert engine.status().blocks_free == 64


def test_a_step_that_does_not_start_costs_its_sequences_only() -> None:
    class Refuses(FakeExecutable):
        def launch(self, *step: object) -> None:
            if self.batches == 0:
                self.batches += 1
                raise ValueError("the batch does not fit")
            super().launch(*step)  # type: ignore[arg-type]

    engine = make_engine(Refuses(64), blocks=64, max_sequences=1)
    answers = answer(engine, request("a"), request("b"))
    assert "a fault in the engine (ValueError)" in (answers.finish("a").error or "")
    assert "does not fit" not in (answers.finish("a").error or "")
    assert answers.finish("b").reason == "length"


def test_a_row_without_finite_logits_costs_its_sequence_only() -> None:
    class Breaks(FakeExecutable):
        def sample(self, sampling: object) -> Sampled:
            sampled = super().sample(sampling)  # type: ignore[arg-type]
            if self.batches == 3:
                sampled.tokens[1] = -1
                raise NonFiniteLogits([1], sampled)
            return sampled

    engine = make_engine(Breaks(64), blocks=64)
    answers = answer(engine, request("a"), request("b"), request("c"))
    assert [answers.finish(id).reason for id in "abc"] == ["length", "error", "length"]
    assert "not finite" in (answers.finish("b").error or "")
    assert answers.finish("b").completion_tokens == 2
    assert answers.tokens("a") == answers.tokens("c")


def test_what_a_fault_may_have_spoiled_is_not_found_again() -> None:
    executable = FakeExecutable(64)
    engine = make_engine(executable, blocks=64)
    prompt = list(range(4, 104))
    engine.submit(request("a", prompt))
    answers = Answers()
    for _ in range(3):
        answers.take(engine.step())
    executable.fail = RuntimeError("the kernel fell over")
    answers.drain(engine)
    assert answers.finish("a").reason == "error"
    assert engine.status().blocks_free == 64
    answers = answer(engine, request("b", prompt))
    assert answers.finish("b").cached_tokens == 0


def test_a_finish_tells_what_came_from_the_cache(synchronous: bool) -> None:
    engine = fake_engine(synchronous=synchronous)
    prompt = list(range(4, 104))
    cold = answer(engine, request("cold", prompt))
    warm = answer(engine, request("warm", prompt))
    assert cold.finish("cold").cached_tokens == 0
    assert warm.finish("warm").cached_tokens == 96
    assert warm.tokens("warm") == cold.tokens("cold")
    assert engine.status().hit_tokens == 96


def test_results_leave_while_the_next_step_runs() -> None:
    executable = FakeExecutable(64)
    engine = make_engine(executable, blocks=64)
    engine.submit(request())
    assert engine.step() == []
    (output,) = engine.step()
    assert len(output.tokens) == 1
    assert executable.batches == 2


def test_steps_are_timed_and_the_chunks_of_prompts_follow(synchronous: bool) -> None:
    """On a machine that takes 10 ms a step and 1 ms a token."""

    class Timed(FakeExecutable):
        now = 0.0

        def sample(self, sampling: Sampling) -> Sampled:
            assert self._batch is not None
            self.now += 0.010 + 0.001 * len(self._batch.tokens)
            return super().sample(sampling)

    executable = Timed(64)
    engine = make_engine(
        executable,
        blocks=64,
        budget=StepBudget(64, target_itl=0.030),
        clock=lambda: executable.now,
        synchronous=synchronous,
    )
    answers = Answers()
    for id in "abc":
        engine.submit(request(id, max_tokens=60))
    for _ in range(6):
        answers.take(engine.step())
    engine.submit(request("long", [9] * 400, max_tokens=1))
    budgets = []
    while "long" not in answers.outputs:
        answers.take(engine.step())
        budgets.append(engine.status().step_budget)
    answers.drain(engine)
    assert set(budgets[5:]) <= {19, 20}
    assert executable.batches > 400 / 17


def test_a_prompt_beside_the_steps_takes_what_the_target_leaves(synchronous: bool) -> None:
    """On the same machine, where chunks beside the steps take half as long a token."""

    class Timed(FakeExecutable):
        now = 0.0

        def launch(self, batch: Batch, slice_seconds: float = 0.0) -> None:
            super().launch(batch, slice_seconds)
            self.seconds = slice_seconds

        def sample(self, sampling: Sampling) -> Sampled:
            assert self._batch is not None
            self.now += self.seconds + 0.010 + 0.001 * len(self._batch.tokens)
            return super().sample(sampling)

        def slice(self) -> Slice:
            tokens = super().slice().tokens
            return Slice(tokens, 0.0005 * tokens, self.seconds)

    executable = Timed(64, chunk=CHUNK_BESIDE)
    engine = make_engine(
        executable,
        blocks=64,
        budget=StepBudget(64, target_itl=0.030, slices=True),
        clock=lambda: executable.now,
        synchronous=synchronous,
    )
    alone = answer(fake_engine(), request("long", [9] * 900))
    answers = Answers()
    for id in "abc":
        engine.submit(request(id, max_tokens=200))
    for _ in range(6):
        answers.take(engine.step())
    engine.submit(request("long", [9] * 900))
    times, budgets = [], []
    while "long" not in answers.outputs:
        answers.take(engine.step())
        times.append(executable.now)
        budgets.append(engine.status().step_budget)
    assert budgets[-4] == 3 + 34
    assert executable.beside is not None
    assert len(executable.beside.tokens) == 899
    assert np.diff(times)[2:-3] == pytest.approx(0.030, abs=0.001)
    answers.drain(engine)
    assert answers.tokens("long") == alone.tokens("long")
    assert answers.finish("long").prompt_tokens == 900


def test_a_step_that_fails_costs_the_prompt_beside_it(synchronous: bool) -> None:
    executable = FakeExecutable(64)
    engine = make_engine(executable, blocks=64, budget=Sliced(64), synchronous=synchronous)
    answers = Answers()
    engine.submit(request("a", max_tokens=50))
    for _ in range(3):
        answers.take(engine.step())
    engine.submit(request("long", [9] * 100))
    answers.take(engine.step())
    executable.fail = RuntimeError("the kernel fell over")
    for _ in range(2):
        answers.take(engine.step())
    assert "(RuntimeError)" in (answers.finish("long").error or "")
    assert "(RuntimeError)" in (answers.finish("a").error or "")
    assert engine.status().blocks_free == 64
    again = answer(engine, request("again", [9] * 100))
    assert again.tokens("again") == answer(fake_engine(), request("r", [9] * 100)).tokens("r")


def test_what_is_beside_the_steps_goes_on_when_nobody_decodes_any_more(synchronous: bool) -> None:
    executable = FakeExecutable(64)
    engine = make_engine(executable, blocks=64, budget=Sliced(64), synchronous=synchronous)
    engine.submit(request("a", max_tokens=4))
    answers = Answers()
    for _ in range(2):
        answers.take(engine.step())
    engine.submit(request("long", [9] * 100))
    answers.drain(engine)
    assert executable.beside is not None
    assert answers.tokens("long") == answer(fake_engine(), request("r", [9] * 100)).tokens("r")


def test_status_counts() -> None:
    engine = fake_engine(max_sequences=1)
    answers = answer(engine, request("a", prompt=[1] * 70), request("b", prompt=[2] * 7))
    status = engine.status()
    assert status.prefilled_tokens == 77
    assert status.generated_tokens == 16
    assert (status.blocks_cached, status.preemptions) == (2, 0)
    assert (status.hit_tokens, status.evictions) == (0, 0)
    assert status.steps > 16
    assert answers.finish("a").prompt_tokens == 70
