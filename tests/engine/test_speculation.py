from __future__ import annotations

import pytest

from headrace.engine.costs import StepCosts
from headrace.engine.request import GenerationRequest
from headrace.engine.speculation import Odds, Speculator

from .fakes import Answers, Foresight, answer, fake_engine, hashed, request, saying, speculator

CHEAP, DEAR = StepCosts({1: 1.0}), StepCosts({1: 1.0, 2: 2.0})


def outputs(answers: Answers, id: str) -> tuple[object, ...]:
    return answers.text(id), answers.tokens(id), answers.logprobs(id), answers.finish(id)


def various(count: int = 6) -> list[GenerationRequest]:
    options: list[dict[str, object]] = [
        {},
        {"temperature": 1.0, "logprobs": 2},
        {"temperature": 0.7, "repetition_penalty": 1.5, "frequency_penalty": 0.4, "logprobs": 0},
        {"presence_penalty": 1.0, "min_tokens": 20, "logit_bias": {3: 9.0}, "stop": ("K", "ab")},
        {"temperature": 1.0, "stop": tuple("KLMNOP"), "stop_token_ids": (70, 71)},
        {"temperature": 1.2, "top_p": 0.9, "top_k": 9, "min_p": 0.01, "ignore_eos": True},
    ]
    return [
        request(str(i), [60 + i, 61, 62 + i], seed=i, **{"max_tokens": 30 + i, **each})
        for i, each in enumerate(options[:count])
    ]


@pytest.mark.parametrize("synchronous", [False, True])
@pytest.mark.parametrize("lies", [lambda n: False, lambda n: True, lambda n: n % 3 == 0])
def test_what_comes_out_does_not_depend_on_what_was_guessed(
    lies: object, synchronous: bool
) -> None:
    asked = various()
    plain = answer(fake_engine(), *asked)
    guessing = speculator(Foresight(lies=lies))  # type: ignore[arg-type]
    engine = fake_engine(speculator=guessing, synchronous=synchronous)
    guessed = answer(engine, *asked)
    for each in asked:
        assert outputs(guessed, each.id) == outputs(plain, each.id)
    status = engine.status()
    assert status.generated_tokens == sum(len(plain.tokens(each.id)) for each in asked)
    assert (status.proposed_tokens, status.accepted_tokens) == (
        guessing.proposed,
        guessing.accepted,
    )
    assert status.blocks_free + status.blocks_cached == status.blocks_total
    assert not guessing._odds


def test_right_guesses_save_steps() -> None:
    asked = request(max_tokens=21, ignore_eos=True)
    plain, guessing = (
        fake_engine(),
        fake_engine(speculator=speculator(Foresight(lies=lambda n: False))),
    )
    answer(plain, asked)
    answers = answer(guessing, asked)
    assert plain.status().steps == 21
    assert guessing.status().steps == 5  # one for the prompt, then 5 tokens each
    assert [len(output.tokens) for output in answers.outputs["r"]] == [1, 5, 5, 5, 5]


def test_nothing_behind_a_stop_text_is_delivered_or_counted() -> None:
    model = saying("one two three", after=3)
    engine = fake_engine(model, speculator=speculator(Foresight(model, lambda n: False), most=8))
    answers = answer(engine, request(stop=("wo",), max_tokens=50, logprobs=0))
    assert answers.text("r") == "one t"
    assert answers.tokens("r") == [ord(letter) for letter in "one two"]
    assert len(answers.logprobs("r")) == 7 == answers.finish("r").completion_tokens
    assert answers.finish("r").matched == "wo"
    assert engine.status().generated_tokens == 7


def test_a_guess_at_random_is_given_up_and_tried_again_one_day() -> None:
    guessing = Speculator(Foresight(lies=lambda n: True), StepCosts({1: 1.0, 9: 3.0}), most=4)
    engine = fake_engine(speculator=guessing, blocks=64)
    answer(engine, request(max_tokens=900, ignore_eos=True))
    assert 10 < guessing.proposed < 300
    assert guessing.accepted == 0


def test_a_token_that_costs_a_step_of_its_own_is_not_guessed() -> None:
    guessing = Speculator(Foresight(lies=lambda n: False), DEAR, most=4)
    answer(fake_engine(speculator=guessing), request(max_tokens=20))
    assert guessing.proposed == 0


def test_a_proposer_that_takes_long_is_not_asked() -> None:
    proposer = Foresight(lies=lambda n: False)
    proposer.seconds = 2.0
    guessing = Speculator(proposer, CHEAP, most=4)
    answer(fake_engine(speculator=guessing), request(max_tokens=20))
    assert guessing.proposed == 0


def test_guesses_leave_room_for_prompts_and_keep_to_the_rows() -> None:
    engine = fake_engine(speculator=speculator(most=8), max_sequences=6, max_step_tokens=10)
    for each in various():
        engine.submit(each)
    scheduler = engine._scheduler
    plans = []
    plan = scheduler.plan
    scheduler.plan = lambda: plans.append(plan()) or plans[-1]  # type: ignore[method-assign]
    answers = Answers().drain(engine)
    assert any(share.guesses for plan in plans for share in plan.shares)
    assert all(plan.rows <= 9 and plan.load.tokens <= 10 for plan in plans)
    for each in various():
        assert answers.tokens(each.id) == answer(fake_engine(), each).tokens(each.id)


def test_a_broken_row_behind_a_wrong_guess_is_no_fault() -> None:
    def model(history: list[int]) -> object:
        logits = hashed(history)
        return logits * float("nan") if 127 in history[3:] else logits

    class Lying(Foresight):
        def _next(self, sequence, before):  # type: ignore[no-untyped-def]
            guess = super()._next(sequence, before)
            return type(guess)(127, 0)

    asked = request(max_tokens=10, logit_bias={127: -100})
    engine = fake_engine(model, speculator=speculator(Lying()))  # type: ignore[arg-type]
    assert outputs(answer(engine, asked), "r") == outputs(answer(fake_engine(), asked), "r")


def test_costs_are_lines_between_points_and_never_fall() -> None:
    costs = StepCosts({1: 1.0, 3: 2.0, 5: 1.5, 9: 4.0})
    assert [costs(n) for n in (1, 2, 3, 4, 5, 7, 9, 13)] == [1, 1.5, 2, 2, 2, 3, 4, 6]
    assert StepCosts({4: 2.0})(30) == 2.0


def test_odds_follow_what_happens_and_fade_to_the_prior() -> None:
    odds = Odds(2, memory=0.9)
    assert odds.chance(0, 0.5) == 0.5
    for _ in range(50):
        odds.learn(0, right=False)
    assert odds.chance(0, 0.5) < 0.2
    assert odds.chance(1, 0.5) == 0.5
    for _ in range(100):
        odds.fade(0)
    assert odds.chance(0, 0.5) == pytest.approx(0.5, abs=0.01)
