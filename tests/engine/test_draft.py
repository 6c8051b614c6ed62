from __future__ import annotations

from collections.abc import Sequence as Items

import numpy as np
import pytest

from headrace.engine.costs import StepCosts, measure_costs
from headrace.engine.draft import CATCH_UP, DraftModel
from headrace.engine.guess import Guess
from headrace.engine.sequence import Sequence
from headrace.engine.speculation import Speculator
from headrace.ops.backend import Batch, Limits

from . import fakes
from .fakes import FakeExecutable, Model, answer, fake_engine, hashed, request

BLOCKS = 64


class DraftExecutable(FakeExecutable):
    """Two sequences that share a block may both write what it holds already."""

    def _run(self, batch: Batch) -> fakes.Floats:
        return self.logits_of(batch)


class Watched(Speculator):
    """Knows when a guess was wrong."""

    def __init__(self, draft: DraftModel, most: int = 4) -> None:
        super().__init__(draft, StepCosts({1: 1.0}), most=most)
        self.wrong = 0

    def learn(self, sequence: Sequence, guesses: Items[Guess], right: int) -> None:
        super().learn(sequence, guesses, right)
        self.wrong += right < len(guesses) and not sequence.ended


def watched(model: Model = hashed, *, blocks: int = BLOCKS, most: int = 4) -> Watched:
    limits = Limits(tokens=512, sequences=32, blocks=blocks, threads=1)
    draft = DraftModel(DraftExecutable(blocks, model), StepCosts({1: 0.01}), limits)
    return Watched(draft, most)


def other(history: list[int]) -> fakes.Floats:
    """Mostly of the same opinion."""
    return np.roll(hashed(history), len(history) % 4 == 0)


def crowd() -> list[fakes.GenerationRequest]:
    beginning = [5] * 70
    return [
        request(
            str(i),
            [*beginning[: 35 * (i % 3)], *[10 + i % 2] * (3 + i)],
            max_tokens=100,
            temperature=float(i % 2),
            seed=i // 2,
            frequency_penalty=0.3 * (i % 3),
            ignore_eos=i % 4 != 0,
        )
        for i in range(9)
    ]


@pytest.mark.parametrize("blocks", [BLOCKS, 8])
@pytest.mark.parametrize("caching", [True, False])
def test_a_draft_that_is_the_model_itself_is_always_right(blocks: int, caching: bool) -> None:
    """So its own keys and values are never another's, whatever was shared, preempted, guessed."""
    guessing = watched(blocks=blocks)
    engine = fake_engine(
        blocks=blocks, max_sequences=8, max_step_tokens=40, caching=caching, speculator=guessing
    )
    asked = crowd()
    answers = answer(engine, *asked)
    assert guessing.wrong == 0
    assert guessing.proposed > 40
    assert bool(engine.status().preemptions) == (blocks == 8)
    for each in asked:
        alone = answer(fake_engine(), each)
        assert answers.tokens(each.id) == alone.tokens(each.id)
        assert answers.text(each.id) == alone.text(each.id)


def test_a_draft_of_another_opinion_changes_nothing() -> None:
    guessing = watched(other)
    asked = crowd()
    answers = answer(fake_engine(speculator=guessing), *asked)
    assert 0 < guessing.accepted < guessing.proposed
    for each in asked:
        assert answers.tokens(each.id) == answer(fake_engine(), each).tokens(each.id)


def test_a_long_prompt_is_read_in_parts_and_only_if_the_answer_may_be_long() -> None:
    prompt = [7] * (CATCH_UP + 100)
    for max_tokens, guesses in ((300, True), (20, False)):
        guessing = watched()
        engine = fake_engine(speculator=guessing, max_step_tokens=512)
        answer(engine, request(prompt=prompt, max_tokens=max_tokens, ignore_eos=True))
        assert bool(guessing.proposed) == guesses
        assert guessing.wrong == 0
        draft = guessing._proposer
        assert isinstance(draft, DraftModel)
        assert not draft._progress


def test_logits_that_are_not_finite_are_a_bad_guess_and_no_fault() -> None:
    def broken(history: list[int]) -> fakes.Floats:
        return hashed(history) * np.float32("nan")

    asked = request(max_tokens=20)
    engine = fake_engine(speculator=watched(broken))
    assert answer(engine, asked).tokens("r") == answer(fake_engine(), asked).tokens("r")


def test_steps_are_measured_within_the_limits() -> None:
    ticks = iter(range(1000))
    executable = DraftExecutable(1, hashed)
    costs = measure_costs(
        executable, Limits(tokens=50, sequences=2, blocks=1, threads=1), lambda: next(ticks)
    )
    assert costs(1) == costs(32) == 1
    assert executable.batches == 18  # of 1, 2, 4, 8, 16 and 32 tokens, three times
