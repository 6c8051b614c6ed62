"""Real grammars on the real small model."""

from __future__ import annotations

import json

import pytest

from headrace.engine.costs import StepCosts
from headrace.engine.draft import DraftModel
from headrace.engine.lookup import PromptLookup
from headrace.engine.loop import Engine
from headrace.engine.request import GenerationRequest
from headrace.engine.sequence import Sequence
from headrace.engine.speculation import Speculator
from headrace.fleet.constraining import Constraining
from headrace.grammar.compiler import Compiler
from headrace.grammar.forms import json_schema, regex
from headrace.grammar.grammar import Grammar
from headrace.models.model import Model
from headrace.ops.backend import Executable, Limits
from headrace.ops.cpu import CpuBackend
from headrace.text.tokenizer import Tokenizer

from .fakes import Answers, answer, make_engine, request

BLOCKS = 64
LIMITS = Limits(tokens=64, sequences=32, blocks=BLOCKS, threads=2)
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "role": {"enum": ["administrator", "editor", "reader"]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 3},
    },
    "required": ["name", "age", "role", "tags"],
    "additionalProperties": False,
}
GRAMMARS = {"schema": json_schema(PERSON), "pattern": regex(r"[A-Z][a-z]{3,20}, [0-9]{4}")}


@pytest.fixture(scope="module")
def executable(model: Model) -> Executable:
    return CpuBackend().load(model.program, model.weights, LIMITS)


@pytest.fixture(scope="module")
def constraints(model: Model, tokenizer: Tokenizer) -> Constraining:
    return Constraining(Compiler(tokenizer, model.program.vocab_size))


class Given:
    def __init__(
        self, executable: Executable, tokenizer: Tokenizer, constraints: Constraining, size: int
    ) -> None:
        self.tokenizer = tokenizer
        self._parts = (executable, constraints, size)

    def engine(self, **options: object) -> Engine:
        executable, constraints, vocab_size = self._parts
        return make_engine(
            executable,
            blocks=BLOCKS,
            vocab_size=vocab_size,
            tokenizer=self.tokenizer,
            constraints=constraints,
            **options,
        )

    def request(self, id: str, grammar: Grammar, **options: object) -> GenerationRequest:
        prompt = self.tokenizer.encode("The people of our town, one of them as JSON:\n")
        kept = {"max_tokens": 120, "temperature": 1.0, "seed": int(id)}
        return request(id, prompt, grammar=grammar, **{**kept, **options})


@pytest.fixture
def given(
    executable: Executable, tokenizer: Tokenizer, constraints: Constraining, model: Model
) -> Given:
    return Given(executable, tokenizer, constraints, model.program.vocab_size)


def all_run(engine: Engine, requests: list[GenerationRequest]) -> Answers:
    for each in requests:
        engine.submit(each)
    return Answers().drain(engine, most_steps=100_000)


def same(one: Answers, other: Answers, requests: list[GenerationRequest]) -> None:
    for each in requests:
        assert one.tokens(each.id) == other.tokens(each.id)
        assert one.text(each.id) == other.text(each.id)
        assert one.finish(each.id).reason == other.finish(each.id).reason


@pytest.mark.parametrize("name", GRAMMARS)
def test_however_it_is_computed_it_is_the_same(
    given: Given, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [given.request(str(i), GRAMMARS[name]) for i in range(6)]
    crowd = all_run(given.engine(), requests)
    guesses = Speculator(PromptLookup(), StepCosts({1: 1.0}), most=4)
    guessed = given.engine(speculator=guesses)
    same(crowd, all_run(guessed, requests), requests)
    assert guessed.status().proposed_tokens > 0 or name == "pattern"
    same(crowd, all_run(given.engine(synchronous=True, caching=False), requests), requests)
    for each in requests[:2]:
        same(crowd, all_run(given.engine(), [each]), [each])
    monkeypatch.setattr(Sequence, "fast_forwards", False)
    drawn = given.engine()
    same(crowd, all_run(drawn, requests), requests)
    assert drawn.status().forced_tokens == 0


@pytest.mark.parametrize("name", GRAMMARS)
def test_drafted_and_plain_are_one_answer(given: Given, name: str, model: Model) -> None:
    """The model is its own draft, but it guesses without masks: where the grammar has it say
    what it would not, guesses are cut or wrong."""
    requests = [given.request(str(i), GRAMMARS[name], temperature=i % 2 * 1.0) for i in range(4)]
    expected = all_run(given.engine(), requests)
    itself = CpuBackend().load(model.program, model.weights, LIMITS)
    draft = DraftModel(itself, StepCosts({1: 0.1}), LIMITS)
    drafting = given.engine(speculator=Speculator(draft, StepCosts({1: 5.0, 2: 5.5}), most=4))
    same(expected, all_run(drafting, requests), requests)
    assert 0 < drafting.status().accepted_tokens < drafting.status().proposed_tokens


def test_finished_documents_are_what_the_schema_says(given: Given) -> None:
    engine = given.engine()
    requests = [
        given.request(str(i), GRAMMARS["schema"], temperature=i % 2 * 1.0) for i in range(8)
    ]
    answers = all_run(engine, requests)
    finished = [r.id for r in requests if answers.finish(r.id).reason == "stop"]
    assert len(finished) >= 6
    for id in finished:
        person = json.loads(answers.text(id))
        assert list(person) == ["name", "age", "role", "tags"]
        assert 0 <= person["age"] <= 130
    assert engine.status().forced_tokens > 8


def test_what_no_grammar_can_be_made_of_is_told(given: Given) -> None:
    answers = answer(given.engine(), given.request("1", Grammar("start: nothing")))
    assert answers.finish("1").reason == "refused"
    assert "nothing" in str(answers.finish("1").error)
