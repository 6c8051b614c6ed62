"""Answers that follow a grammar, through the whole engine."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Hashable
from collections.abc import Sequence as Items
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest
from numpy.typing import NDArray

from headrace.engine.constraint import Constraint
from headrace.engine.loop import MOST_FORCED
from headrace.engine.output import Finish
from headrace.engine.request import GenerationRequest
from headrace.engine.sequence import Sequence
from headrace.grammar.grammar import Grammar
from headrace.ops.backend import BLOCK_SIZE

from .fakes import (
    EOS,
    Answers,
    Form,
    Forms,
    answer,
    fake_engine,
    made,
    request,
    saying,
    speculator,
)

FORM = "{name:??,age:*,sign:?}"


@pytest.fixture(params=[False, True], ids=["overlapped", "synchronous"])
def synchronous(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def asked(id: str = "r", grammar: str = FORM, **options: object) -> GenerationRequest:
    seed = sum(map(ord, id))
    kept = {"max_tokens": 200, "temperature": 1.0, "seed": seed}
    return request(id, grammar=grammar, **{**kept, **options})


def follows(text: str, form: str = FORM) -> bool:
    """Whether a text is a whole document of a form."""
    constraint = Form(form, {EOS})
    tokens = [ord(letter) for letter in text]
    return constraint.allows(tokens) == len(tokens) and _ends(constraint, tokens)


def _ends(constraint: Form, tokens: list[int]) -> bool:
    for token in tokens:
        constraint.accept(token)
    return constraint.exhausted or EOS in constraint._allowed(constraint._place)


def test_an_answer_is_a_document_and_ends_with_it(synchronous: bool) -> None:
    engine = fake_engine(synchronous=synchronous)
    answers = answer(engine, *[asked(str(i)) for i in range(20)])
    for i in range(20):
        assert follows(answers.text(str(i)))
        assert answers.finish(str(i)).reason == "stop"
        assert answers.finish(str(i)).matched is None
        assert EOS not in answers.tokens(str(i)), "the end is not drawn"
        assert answers.finish(str(i)).completion_tokens == len(answers.text(str(i)))
    assert len({answers.text(str(i)) for i in range(20)}) > 1


def test_forced_tokens_take_no_step_and_count(synchronous: bool) -> None:
    engine = fake_engine(synchronous=synchronous)
    answers = answer(engine, asked(grammar="{name:?}"))
    # The prompt with `{name:`, and a letter, behind which there is only `}`.
    assert engine.status().steps == 1
    assert engine.status().forced_tokens == 7
    assert engine.status().generated_tokens == 8
    assert answers.finish("r").completion_tokens == 8
    assert answers.outputs["r"][0].tokens == [ord(letter) for letter in "{name:"]


def test_what_is_cached_of_forced_tokens_is_not_the_prompts() -> None:
    engine, prompt = fake_engine(), [1] * (2 * BLOCK_SIZE - 2)
    first = answer(engine, asked("a", grammar="{name:?}", prompt=prompt))
    second = answer(engine, asked("b", grammar="{name:?}", prompt=prompt))
    assert first.finish("a").cached_tokens == 0
    assert second.finish("b").cached_tokens == len(prompt)


def test_a_document_without_a_choice_is_answered_without_a_step(synchronous: bool) -> None:
    engine = fake_engine(synchronous=synchronous)
    answers = answer(engine, asked(grammar="{name:}"))
    assert answers.text("r") == "{name:}"
    assert answers.finish("r").reason == "stop"
    assert engine.status().steps == 0


@pytest.mark.parametrize("options", [{}, {"logprobs": 0}], ids=["plain", "logprobs"])
def test_who_wants_logprobs_gets_the_same_tokens_each_with_one(options: dict[str, int]) -> None:
    engine = fake_engine()
    answers = answer(engine, asked(**options))
    assert answers.text("r") == answer(fake_engine(), asked()).text("r")
    assert len(answers.logprobs("r")) == (len(answers.tokens("r")) if options else 0)
    assert (engine.status().forced_tokens == 0) == bool(options)


def test_taken_as_they_are_or_drawn_tokens_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [
        asked("plain"),
        asked("greedy", temperature=0.0),
        asked("stop", stop=("sig", "age:7")),
        asked("short", max_tokens=9),
        asked("penalised", presence_penalty=1.5, repetition_penalty=1.3),
        asked("late", min_tokens=40, grammar="??*"),
        asked("long", grammar="?" + "x" * 100 + "?", max_tokens=120),
    ]
    forwarded = fake_engine()
    one = answer(forwarded, *requests)
    monkeypatch.setattr(Sequence, "fast_forwards", False)
    drawn = fake_engine()
    other = answer(drawn, *requests)
    for each in requests:
        assert one.tokens(each.id) == other.tokens(each.id)
        assert one.text(each.id) == other.text(each.id)
        assert one.finish(each.id) == other.finish(each.id)
    assert forwarded.status().forced_tokens > 100
    assert drawn.status().forced_tokens == 0
    assert forwarded.status().steps < drawn.status().steps
    assert forwarded.status().generated_tokens == drawn.status().generated_tokens


def test_a_long_run_is_taken_in_pieces() -> None:
    engine = fake_engine(max_sequences=4, max_step_tokens=16)
    answers = answer(engine, asked(grammar="?" + "x" * 100, max_tokens=120))
    assert answers.text("r")[1:] == "x" * 100
    assert max(len(output.tokens) for output in answers.outputs["r"]) == 1 + MOST_FORCED
    assert MOST_FORCED < BLOCK_SIZE


def test_forced_tokens_come_before_prompts_but_leave_them_room() -> None:
    """Who has a run of forced tokens to catch up with isn't put behind a long prompt."""
    engine = fake_engine(max_sequences=2, max_step_tokens=16)
    engine.submit(asked("form", grammar="?" + "x" * 30 + "?", max_tokens=40))
    answers = Answers()
    while not answers.outputs:
        answers.take(engine.step())
    engine.submit(request("prompt", [7] * 200, max_tokens=2))
    steps = engine.status().steps
    while answers.outputs["form"][-1].finish is None:
        answers.take(engine.step())
    # 31 tokens behind the first letter, at 1 + 7 a step beside the prompt at first.
    assert engine.status().steps - steps <= 6
    assert engine._scheduler.running[0].computed > 16
    answers.drain(engine)


def test_max_tokens_ends_it_in_the_middle_with_length(synchronous: bool) -> None:
    answers = answer(fake_engine(synchronous=synchronous), asked(max_tokens=4))
    assert answers.text("r") == FORM[:4]
    assert answers.finish("r").reason == "length"


class Cut(Form):
    """It may not go on behind its second token."""

    def accept(self, token: int) -> None:
        super().accept(token)
        self.cut = self._place >= 2


def test_a_document_that_may_not_go_on_ends_with_length(synchronous: bool) -> None:
    engine = fake_engine(
        synchronous=synchronous,
        constraints=lambda grammar, ids, *_: made(Cut(grammar.text, ids)),
    )
    answers = answer(engine, asked(grammar="a?b?c"))
    assert answers.finish("r").reason == "length"
    assert len(answers.text("r")) == 2


def test_a_document_that_is_complete_with_the_last_token_is_complete() -> None:
    answers = answer(fake_engine(), asked(grammar="{?}", max_tokens=3))
    assert answers.finish("r") == Finish(reason="stop", prompt_tokens=3, completion_tokens=3)


def test_the_end_is_drawn_only_where_the_document_may_end() -> None:
    eager = saying("", after=3)  # wants to end at once, and always
    answers = answer(fake_engine(eager), asked(grammar="?*", temperature=0.0))
    assert answers.tokens("r")[1:] == [EOS]
    assert answers.finish("r").reason == "stop"


def test_ids_that_stop_are_allowed_where_the_document_may_end() -> None:
    always = saying("~" * 40, after=3)
    kept = {"temperature": 0.0, "stop_token_ids": (ord("~"),), "ignore_eos": True}
    answers = answer(fake_engine(always), asked(grammar="??*", **kept))
    assert len(answers.text("r")) == 2
    assert answers.finish("r").matched == ord("~")


def test_min_tokens_bans_the_end_while_the_document_can_go_on() -> None:
    eager = saying("", after=3)
    answers = answer(fake_engine(eager), asked(grammar="?*", temperature=0.0, min_tokens=7))
    assert len(answers.tokens("r")) == 8
    ends = answer(fake_engine(eager), asked(grammar="?*x", min_tokens=50, ignore_eos=True))
    assert ends.finish("r").reason in ("stop", "length")


def test_a_complete_document_ends_before_min_tokens_and_whatever_ids_may_end_it() -> None:
    answers = answer(fake_engine(), asked(grammar="{?}", min_tokens=20, ignore_eos=True))
    assert answers.finish("r").reason == "stop"
    assert len(answers.tokens("r")) == 3


def test_a_stop_text_in_forced_tokens_cuts_it_there(synchronous: bool) -> None:
    engine = fake_engine(synchronous=synchronous)
    answers = answer(engine, asked(grammar="?, name:?", stop=("na",)))
    assert answers.text("r")[1:] == ", "
    assert len(answers.tokens("r")) == 5
    assert answers.finish("r").matched == "na"
    status = engine.status()
    assert (status.generated_tokens, status.forced_tokens) == (5, 4)
    assert status.blocks_free == status.blocks_total


@pytest.mark.parametrize("blocks", [64, 5])
def test_in_company_and_preempted_is_alone(blocks: int) -> None:
    crowd = [
        request(f"free-{i}", [9 + i] * 30, max_tokens=60, temperature=1.0, ignore_eos=True)
        for i in range(2)
    ]
    forms = [asked(f"form-{i}", grammar="?****" + FORM * 2, max_tokens=90) for i in range(3)]
    small = fake_engine(blocks=blocks, max_step_tokens=33)
    answers = answer(small, *crowd[:1], *forms, *crowd[1:])
    assert (small.status().preemptions > 0) == (blocks == 5)
    for each in [*crowd, *forms]:
        alone = answer(fake_engine(caching=False), each)
        assert alone.tokens(each.id) == answers.tokens(each.id)
        assert alone.text(each.id) == answers.text(each.id)


def test_guesses_that_are_forbidden_are_never_computed() -> None:
    requests = [asked(str(i), max_tokens=40) for i in range(4)]
    guessing = fake_engine(speculator=speculator())
    answers = answer(guessing, *requests)
    plain = answer(fake_engine(), *requests)
    for each in requests:
        assert answers.tokens(each.id) == plain.tokens(each.id)
        assert answers.finish(each.id) == plain.finish(each.id)


def test_choices_have_each_their_own_place() -> None:
    engine = fake_engine()
    answers = answer(engine, *[asked(f"choice-{i}", seed=1, choice=i) for i in range(4)])
    texts = {answers.text(f"choice-{i}") for i in range(4)}
    assert len(texts) > 1
    assert all(map(follows, texts))


class Late(Form):
    """Knows that nothing may follow only when it is asked for what may."""

    exhausted = False

    def mask(self, row: NDArray[np.uint32], after: Items[int] = ()) -> bool:
        some = super().mask(row, after)
        if self._place < len(self._form):
            return some
        row[:] = 0
        return False


def test_a_document_that_turns_out_to_be_complete_ends_there(synchronous: bool) -> None:
    engine = fake_engine(
        constraints=lambda grammar, ids, *_: made(Late(grammar.text, ids)), synchronous=synchronous
    )
    answers = answer(engine, asked(grammar="{??}", ignore_eos=True), request("free"))
    assert len(answers.text("r")) == 4
    assert answers.finish("r") == Finish(reason="stop", prompt_tokens=3, completion_tokens=4)
    assert answers.finish("free").reason == "length"


# ---- compiling ----


def test_who_waits_for_a_grammar_holds_up_nobody() -> None:
    engine = fake_engine(constraints=Forms(polls=10))
    engine.submit(asked("form"))
    engine.submit(request("free", max_tokens=5))
    answers = Answers()
    assert engine.status().waiting == 2
    while "form" not in answers.outputs:
        answers.take(engine.step())
    assert answers.finish("free").reason == "length"
    assert follows(answers.drain(engine).text("form"))


def test_the_line_is_in_the_order_in_which_grammars_are_there() -> None:
    forms = Forms(polls=3)
    engine = fake_engine(constraints=forms)
    engine.submit(asked("slow"))
    forms.polls = 0
    engine.submit(asked("quick"))
    engine.submit(asked("quick too"))
    order = []
    while engine.has_work:
        engine.step()
        for sequence in engine._scheduler.running:
            if sequence.request.id not in order:
                order.append(sequence.request.id)
    assert order == ["quick", "quick too", "slow"]


def test_a_grammar_that_cannot_be_made_ends_its_request_alone(synchronous: bool) -> None:
    engine = fake_engine(synchronous=synchronous)
    answers = answer(engine, asked("bad", grammar="!it is empty"), asked("good"))
    finish = answers.finish("bad")
    assert finish.reason == "refused"
    assert finish.error == "the grammar can't be followed: it is empty"
    assert answers.finish("good").reason == "stop"


def test_an_engine_without_grammars_refuses_them() -> None:
    finish = answer(fake_engine(constraints=None), asked()).finish("r")
    assert (finish.reason, finish.error) == (
        "refused",
        "there is nothing here that follows a grammar",
    )


def test_a_cancel_ends_what_is_still_compiling() -> None:
    forms = Forms(polls=1000)
    engine = fake_engine(constraints=forms)
    engine.submit(asked())
    engine.step()
    assert engine.has_work
    engine.cancel("r")
    answers = Answers().drain(engine)
    assert answers.finish("r") == Finish(reason="cancelled", prompt_tokens=0, completion_tokens=0)
    assert engine.status().waiting == 0


def test_a_grammar_of_nothing_is_complete_at_once() -> None:
    assert answer(fake_engine(), asked(grammar="")).finish("r").reason == "stop"


def test_an_idle_engine_waits_for_the_thread_that_compiles() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def compile(grammar: Grammar, ending_ids: frozenset[int]) -> Constraint:
        begun.set()
        assert go_on.wait(10)
        return Form(grammar.text, ending_ids)

    with ThreadPoolExecutor(1) as threads:
        engine = fake_engine(constraints=lambda *asked: threads.submit(compile, *asked[:2]))
        engine.submit(asked())
        assert engine.step() == []
        assert begun.wait(10)
        assert engine.status().waiting == 1
        go_on.set()
        assert follows(Answers().drain(engine, most_steps=100_000).text("r"))


# ---- faults ----


class Failing(Form):
    """Fails at the fifth token, in one of its methods."""

    def __init__(self, form: str, ending_ids: frozenset[int], method: str) -> None:
        super().__init__(form, ending_ids)
        self._method = method

    def __getattribute__(self, name: str) -> object:
        own = super().__getattribute__
        if name == own("_method") and own("_place") >= 5:
            raise ValueError("it became too costly")
        return own(name)


@pytest.mark.parametrize("method", ["mask", "accept", "forced", "exhausted", "allows"])
def test_a_constraint_that_fails_ends_its_sequence_alone(method: str) -> None:
    options = {"speculator": speculator()} if method == "allows" else {}
    engine = fake_engine(
        constraints=lambda grammar, ids, *_: made(Failing(grammar.text, ids, method)), **options
    )
    beside = request("free", max_tokens=30, temperature=1.0, ignore_eos=True)
    answers = answer(engine, asked(grammar="?????????x"), beside)
    assert answers.tokens("free") == answer(fake_engine(), beside).tokens("free")
    if method == "allows":  # guesses are all that needs it
        assert answers.finish("r").reason == "stop"
    else:
        finish = answers.finish("r")
        assert finish.error == "the grammar can't be followed: it became too costly"
        assert len(answers.tokens("r")) == finish.completion_tokens
    status = engine.status()
    assert status.blocks_free + status.blocks_cached == status.blocks_total


class Costly(Form):
    """Its masks take so many seconds each, by a clock of the test's own."""

    now = 0.0

    def __init__(self, form: str, ending_ids: frozenset[int], seconds: list[float]) -> None:
        super().__init__(form, ending_ids)
        self._seconds = iter(seconds)

    def mask(self, row: NDArray[np.uint32], after: Items[int] = ()) -> bool:
        Costly.now += next(self._seconds, 0.0)
        return super().mask(row, after)


@pytest.mark.parametrize(
    ("seconds", "taken"),
    [
        ([0.06] * 20, 2),  # the third exceeds what all may take beyond the usual
        ([1.0], 0),
        ([0.0] * 10 + [0.16], 10),  # cheap ones save nothing
        ([0.14, *[0.002] * 19], 20),
        ([0.02] * 5 + [0.0] * 10 + [0.02] * 4, 20),
    ],
    ids=["often", "once", "late", "at the start", "now and then"],
)
@pytest.mark.parametrize("guesses", [False, True])
def test_who_makes_others_wait_for_masks_is_ended_alone(
    seconds: list[float], taken: int, guesses: bool, synchronous: bool
) -> None:
    engine = fake_engine(
        constraints=lambda grammar, ids, *_: made(Costly(grammar.text, ids, seconds)),
        constraint_clock=lambda: Costly.now,
        synchronous=synchronous,
        speculator=speculator() if guesses else None,
    )
    beside = request("free", max_tokens=30, temperature=1.0, ignore_eos=True)
    answers = answer(engine, asked(grammar="?" * 20), beside)
    assert answers.tokens("free") == answer(fake_engine(), beside).tokens("free")
    finish = answers.finish("r")
    if taken == 20:
        assert finish.reason == "stop"
    else:
        assert finish.reason == "refused"
        assert finish.error == "the grammar can't be followed: it became too costly"
        assert guesses or finish.completion_tokens == taken
    status = engine.status()
    assert status.blocks_free + status.blocks_cached == status.blocks_total


# ---- replay ----


@pytest.mark.parametrize("cut", [1, 5, 12])
def test_a_place_is_rebuilt_from_the_tokens(cut: int) -> None:
    """The answer goes on behind what was generated elsewhere as it would have."""
    whole = answer(fake_engine(), asked(grammar="?" * 20)).tokens("r")
    again = asked(grammar="?" * 20, generated=array("i", whole[:cut]))
    assert answer(fake_engine(), again).tokens("r") == whole[cut:]


def test_rows_without_a_grammar_have_no_mask() -> None:
    engine = fake_engine()
    seen = []
    inner = engine._runner._executable.sample

    def watched(sampling: object) -> object:
        masks = sampling.masks
        seen.append((len(sampling.temperature), None if masks is None else masks.row.tolist()))
        return inner(sampling)

    engine._runner._executable.sample = watched
    answer(engine, request("free", max_tokens=3), asked("form", grammar="???"))
    assert seen == [(2, [1]), (2, [1]), (2, [1])]
    answer(engine, request("free", max_tokens=1))
    assert seen[-1] == (1, None)


def test_a_grammar_is_made_in_the_turn_of_the_requests_namespace() -> None:
    owners: list[Hashable] = []

    def note(
        grammar: Grammar, ending_ids: frozenset[int], taken: Items[int], owner: Hashable
    ) -> Future[Constraint]:
        owners.append(owner)
        return made(Form(grammar.text, ending_ids))

    answer(fake_engine(constraints=note), asked(namespace="tenant x"))
    assert owners == ["tenant x"]
