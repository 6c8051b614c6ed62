"""A generation goes on in another engine as it would have in the one that was lost."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import partial

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.engine.loop import Engine
from headrace.engine.output import Finish, Output, Prefilled
from headrace.engine.request import GenerationRequest
from headrace.text.pipeline import TextPipeline
from headrace.text.reasoning import Thinking

from .fakes import Answers, FakeText, answer, fake_engine, request, saying, speculator

NewEngine = Callable[[], Engine]


def goes_on(new_engine: NewEngine, asked: GenerationRequest, *, cut: int | None = None) -> None:
    """Lost behind each of its outputs in turn, or only behind this one, it ends the same."""
    whole = answer(new_engine(), asked)
    outputs = whole.outputs[asked.id]
    for count in range(len(outputs)) if cut is None else (cut % len(outputs),):
        seen = outputs[:count]
        tokens = [token for output in seen for token in output.tokens]
        known = [output.prefilled for output in seen if output.prefilled]
        lost = msgspec.structs.replace(
            asked, generated=array("i", tokens), prefilled=known[-1] if known else None
        )
        rest = answer(new_engine(), lost)
        both = Answers()
        both.outputs[asked.id] = [*seen, *rest.outputs[asked.id]]
        assert told(both, asked.id) == told(whole, asked.id)


def told(answers: Answers, id: str) -> tuple[object, ...]:
    """All that a caller sees but for where it is cut, and what was cached."""
    outputs: list[Output] = answers.outputs[id]
    finish: Finish = msgspec.structs.replace(answers.finish(id), cached_tokens=0)
    reasoning = "".join(output.reasoning for output in outputs)
    scored = [output.prompt_logprobs for output in outputs if output.prompt_logprobs]
    logprobs = answers.logprobs(id)
    return answers.text(id), answers.tokens(id), reasoning, logprobs, scored, finish


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 1000),
    cut=st.integers(0, 100),
    max_tokens=st.integers(1, 30),
    min_tokens=st.integers(0, 10),
    stop=st.lists(st.text("abcde", min_size=1, max_size=2), max_size=3),
    penalty=st.sampled_from([0.0, 0.7]),
    logprobs=st.sampled_from([None, 0, 2]),
    ignore_eos=st.booleans(),
    synchronous=st.booleans(),
    speculates=st.booleans(),
)
def test_any_answer_lost_anywhere(
    seed: int, cut: int, synchronous: bool, speculates: bool, penalty: float, **options: object
) -> None:
    asked = request(
        seed=seed,
        temperature=1.2,
        frequency_penalty=penalty,
        prompt_logprobs=options["logprobs"] is not None,
        **options | {"stop": tuple(options["stop"])},  # type: ignore[arg-type]
    )

    def new_engine() -> Engine:
        guesses = {"speculator": speculator()} if speculates else {}
        return fake_engine(synchronous=synchronous, **guesses)

    goes_on(new_engine, asked, cut=cut)


@pytest.mark.parametrize("form", ["{name:??,age:*,sign:?}", "{????}", "a long text, all forced"])
@pytest.mark.parametrize("logprobs", [None, 1])
def test_what_follows_a_grammar_goes_on_in_it(form: str, logprobs: int | None) -> None:
    """Forced tokens too, which are taken many at a time."""
    for seed in range(5):
        asked = request(grammar=form, max_tokens=60, temperature=1.0, seed=seed, logprobs=logprobs)
        goes_on(fake_engine, asked)


def test_a_stop_text_reaches_over_the_cut() -> None:
    asked = request(max_tokens=30, stop=("ta g",))
    goes_on(partial(fake_engine, saying("alpha beta gamma", after=3)), asked)


def test_thoughts_are_told_apart_behind_the_cut_too() -> None:
    def new_engine() -> Engine:
        engine = fake_engine(saying("<t>one, two</t>three four", after=3))
        engine._text_streams = partial(TextPipeline, FakeText())
        return engine

    asked = request(max_tokens=40, stop=("four",), thinking=Thinking("<t>", "</t>"))
    assert answer(new_engine(), asked).text("r") == "three "
    goes_on(new_engine, asked)


@pytest.mark.parametrize(
    ("generated", "fault"),
    [([65] * 8, "all its tokens have been generated"), ([10**6], "generated holds token id")],
)
def test_what_can_not_go_on_is_refused(generated: list[int], fault: str) -> None:
    answers = answer(fake_engine(), request(generated=array("i", generated)))
    assert answers.finish("r").reason == "refused"
    assert fault in str(answers.finish("r").error)


def test_tokens_that_no_grammar_allows_are_refused() -> None:
    answers = answer(fake_engine(), request(grammar="{??}", generated=array("i", [ord("x")])))
    assert answers.finish("r").reason == "refused"


PROMPT = list(range(4, 104))


def test_a_resumed_request_reports_the_cached_tokens_it_had() -> None:
    first = fake_engine()
    answer(first, request("warm", PROMPT))
    first.submit(request("r", PROMPT, max_tokens=9))
    seen = Answers()
    while not seen.outputs:
        seen.take(first.step())
    generated = array("i", seen.tokens("r"))
    assert seen.prefilled["r"] == Prefilled(len(PROMPT), 96)
    lost = msgspec.structs.replace(
        request("r", PROMPT, max_tokens=9), generated=generated, prefilled=seen.prefilled["r"]
    )
    rest = answer(fake_engine(), lost)
    assert rest.finish("r").cached_tokens == 96


def test_one_that_was_lost_in_its_prompt_reports_the_cached_tokens_it_had() -> None:
    first = fake_engine(max_step_tokens=64)
    answer(first, request("warm", PROMPT))
    wanted = request("r", [*PROMPT, *range(4, 104)], max_tokens=3)
    first.submit(wanted)
    seen = Answers()
    while "r" not in seen.prefilled:
        seen.take(first.step())
    prefilled = seen.prefilled["r"]
    assert not seen.outputs
    assert 96 < prefilled.tokens < 200
    assert prefilled.cached == 96
    lost = msgspec.structs.replace(wanted, prefilled=prefilled)
    second = fake_engine(max_step_tokens=64)
    assert answer(second, lost).finish("r").cached_tokens == 96
    # What others computed of the rest of it counts, what they did of its beginning does not.
    again = answer(second, msgspec.structs.replace(lost, id="again"))
    assert again.finish("again").cached_tokens == 96 + 192 - prefilled.tokens


@pytest.mark.parametrize("synchronous", [False, True])
def test_one_that_leaves_in_its_prompt_reports_what_was_computed(synchronous: bool) -> None:
    engine = fake_engine(max_step_tokens=64, max_sequences=64, synchronous=synchronous)
    engine.submit(request("r", PROMPT * 4, max_tokens=3))
    answers = Answers()
    while "r" not in answers.prefilled:
        answers.take(engine.step())
    engine.cancel("r")
    finish = answers.drain(engine).finish("r")
    assert (finish.reason, finish.prompt_tokens) == ("cancelled", answers.prefilled["r"].tokens)
    assert 0 < finish.prompt_tokens < 400


def test_one_that_is_preempted_and_leaves_reports_all_that_was_computed() -> None:
    engine = fake_engine(blocks=8, max_sequences=2)
    answers = Answers()
    for id in "ab":
        engine.submit(request(id, [*PROMPT[:60], ord(id)], max_tokens=150, ignore_eos=True))
    while not engine.status().preemptions:
        answers.take(engine.step())
        assert engine.status().running, "both ended without a preemption"
    engine.cancel("b")
    assert answers.drain(engine).finish("b").prompt_tokens == 61
