"""Guessed and plain are one answer, on the real default model and the native kernels."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.engine.costs import StepCosts
from headrace.engine.draft import DraftModel
from headrace.engine.guess import Proposer
from headrace.engine.lookup import PromptLookup
from headrace.engine.loop import Engine
from headrace.engine.request import GenerationRequest
from headrace.engine.speculation import Speculator
from headrace.models.model import Model
from headrace.ops.backend import Executable, Limits
from headrace.ops.cpu import CpuBackend
from headrace.text.tokenizer import Tokenizer

from .fakes import Answers, answer, make_engine, request

LIMITS = Limits(tokens=128, sequences=8, blocks=64, threads=2)

CODE = """def area(width, height):
    return width * height

def perimeter(width, height):
    return 2 * (width + height)

The same two functions again, letter by letter:

def area(width, height):
"""

MakeEngine = Callable[[Proposer | None], Engine]


@pytest.fixture(scope="module")
def executable(model: Model) -> Executable:
    return CpuBackend().load(model.program, model.weights, LIMITS)


@pytest.fixture
def engine_with(executable: Executable, model: Model, tokenizer: Tokenizer) -> MakeEngine:
    def make(proposer: Proposer | None) -> Engine:
        speculator = None
        if proposer is not None:
            speculator = Speculator(proposer, StepCosts({1: 5.0, 2: 5.5}), most=5)
        return make_engine(
            executable,
            blocks=LIMITS.blocks,
            context_length=512,
            max_sequences=LIMITS.sequences,
            max_step_tokens=LIMITS.tokens,
            vocab_size=model.program.vocab_size,
            speculator=speculator,
            tokenizer=tokenizer,
        )

    return make


def asked(tokenizer: Tokenizer) -> list[GenerationRequest]:
    prompt = tokenizer.encode(CODE)
    options: list[dict[str, object]] = [
        {"logprobs": 3},
        {"temperature": 1.0, "seed": 7, "logprobs": 3},
        {"temperature": 0.5, "top_p": 0.9, "frequency_penalty": 0.2, "repetition_penalty": 1.05},
        {"temperature": 0.3, "stop": ("perimeter", "zzz"), "seed": 2, "logprobs": 0},
        {"stop": ("2 * (",)},
    ]
    return [request(str(i), prompt, max_tokens=50, **each) for i, each in enumerate(options)]


def told(answers: Answers, id: str) -> tuple[object, ...]:
    """All but which step a token came with."""
    return answers.text(id), answers.tokens(id), answers.logprobs(id), answers.finish(id)


def test_drafted_and_plain_are_one_answer_bit_for_bit(
    engine_with: MakeEngine, model: Model, tokenizer: Tokenizer
) -> None:
    """The model is its own draft, so at the same draws it is right with every guess."""
    requests = asked(tokenizer)
    expected = answer(engine_with(None), *requests)
    itself = CpuBackend().load(model.program, model.weights, LIMITS)
    drafting = engine_with(DraftModel(itself, StepCosts({1: 0.1}), LIMITS))
    found = answer(drafting, *requests)
    for each in requests:
        assert told(found, each.id) == told(expected, each.id)
    status = drafting.status()
    assert status.accepted_tokens >= 0.95 * status.proposed_tokens > 40  # else behind an ending


def test_looked_up_and_plain_are_one_answer_bit_for_bit(
    engine_with: MakeEngine, tokenizer: Tokenizer
) -> None:
    requests = asked(tokenizer)
    plain = engine_with(None)
    expected = answer(plain, *requests)
    together = engine_with(PromptLookup())
    found = answer(together, *requests)
    for each in requests:
        assert told(found, each.id) == told(expected, each.id)
        alone = answer(engine_with(PromptLookup()), each)
        assert told(alone, each.id)[:3] == told(expected, each.id)[:3]
    assert together.status().accepted_tokens > 20
    assert together.status().steps < plain.status().steps
