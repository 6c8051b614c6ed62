"""What a request gets does not depend on what runs beside it, nor on how its steps are cut.

On `ops/cpu` tokens and logprobs are equal bit for bit. numpy's matrix products are not made for
that, so on `ops/reference` logprobs are close and tokens equal.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import msgspec
import numpy as np
import pytest

from headrace.engine.loop import Engine
from headrace.engine.output import Finish, TokenLogprob
from headrace.engine.request import GenerationRequest
from headrace.ops.backend import BLOCK_SIZE, Backend, Batch, Limits
from headrace.ops.cpu import CpuBackend, available_isas
from headrace.ops.reference import ReferenceBackend

from . import tiny
from .fakes import VOCAB, Answers, Sliced, answer, make_engine, request


@dataclass
class Given:
    """A backend, and whether it promises equality to the bit."""

    backend: Backend
    exact: bool

    def engine(
        self, *, blocks: int = 128, threads: int = 1, chunk: int = 0, **options: object
    ) -> Engine:
        executable = tiny.load(self.backend, blocks=blocks, threads=threads, chunk=chunk)
        return make_engine(executable, blocks=blocks, **options)

    def same(self, one: Answers, other: Answers, id: str = "r") -> None:
        assert one.tokens(id) == other.tokens(id)
        assert one.text(id) == other.text(id)
        assert uncached(one.finish(id)) == uncached(other.finish(id))
        ours, theirs = numbers(one.logprobs(id)), numbers(other.logprobs(id))
        assert len(ours) == len(theirs) > 0
        if self.exact:
            assert ours == theirs
        else:
            assert ours == pytest.approx(theirs, abs=1e-4)


def uncached(finish: Finish) -> Finish:
    """What does not depend on who came before."""
    return msgspec.structs.replace(finish, cached_tokens=0)


def numbers(entries: list[TokenLogprob]) -> list[float]:
    return [n for e in entries for n in (e.logprob, *(logprob for _, logprob, _ in e.top))]


@pytest.fixture(params=["reference", *available_isas()])
def given(request: pytest.FixtureRequest) -> Given:
    """Every instruction set this machine has, each forced, and the reference."""
    if request.param == "reference":
        return Given(ReferenceBackend(), exact=False)
    return Given(CpuBackend(request.param), exact=True)


def asked(**options: object) -> GenerationRequest:
    """A request that leans on everything: long prompt, penalties, draws, logprobs."""
    prompt = np.random.default_rng(0).integers(4, VOCAB, 90).tolist()
    kept = {
        "max_tokens": 40,
        "temperature": 0.9,
        "top_p": 0.95,
        "seed": 11,
        "logprobs": 3,
        "repetition_penalty": 1.1,
        "frequency_penalty": 0.2,
        "ignore_eos": True,
        "logit_bias": {70: 1.5},
    }
    return request("r", prompt, **{**kept, **options})


def others(count: int, seed: int = 1) -> list[GenerationRequest]:
    rng = np.random.default_rng(seed)
    return [
        request(
            f"other-{i}",
            rng.integers(4, VOCAB, rng.integers(1, 60)).tolist(),
            max_tokens=int(rng.integers(1, 60)),
            temperature=float(rng.uniform(0, 1.5)),
            top_k=int(rng.integers(0, 50)),
            seed=i,
            presence_penalty=float(rng.uniform(-1, 1)),
        )
        for i in range(count)
    ]


def test_alone_is_among_31_others(given: Given) -> None:
    alone = answer(given.engine(), asked())
    beside = others(31)
    crowd = answer(given.engine(), *beside[:15], asked(), *beside[15:])
    given.same(alone, crowd)


def test_joining_a_running_batch_changes_nothing(given: Given) -> None:
    alone = answer(given.engine(), asked())
    engine, answers = given.engine(), Answers()
    for i, other in enumerate(others(20)):
        engine.submit(other)
        answers.take(engine.step())
        if i == 10:
            engine.submit(asked())
    given.same(alone, answers.drain(engine))


@pytest.mark.parametrize("step", [32, 33, 47])
def test_in_chunks_is_whole(given: Given, step: int) -> None:
    whole = tiny.load(given.backend, blocks=128)
    wide = make_engine(whole, blocks=128, max_step_tokens=64)
    narrow = given.engine(max_step_tokens=step)
    given.same(answer(wide, asked()), answer(narrow, asked()))


@pytest.mark.parametrize(("chunk", "threads"), [(7, 1), (32, 2), (512, 2)])
def test_beside_the_steps_is_within_them(given: Given, chunk: int, threads: int) -> None:
    alone = answer(given.engine(), asked())
    engine, answers = given.engine(chunk=chunk, threads=threads, budget=Sliced(64)), Answers()
    for other in others(5):
        engine.submit(other)
        answers.take(engine.step())
    engine.submit(asked())
    engine.submit(msgspec.structs.replace(asked(), id="twin"))
    beside = False
    while engine.has_work:
        answers.take(engine.step())
        beside = beside or engine._scheduler._beside is not None
    assert beside
    given.same(alone, answers)
    assert answers.tokens("twin") == answers.tokens("r")


@pytest.mark.parametrize("shared", [32, 63, 64, 65, 89, 90])
def test_a_hit_is_a_miss(given: Given, shared: int) -> None:
    """Whatever part of the prompt somebody else has computed, in whatever chunks."""
    alone = answer(given.engine(caching=False), asked())
    engine = given.engine(max_step_tokens=47)
    answer(engine, request("other", asked().prompt[:shared] + [5] * 9, max_tokens=3))
    warm = answer(engine, asked())
    assert warm.finish("r").cached_tokens == min(shared, 89) // BLOCK_SIZE * BLOCK_SIZE
    given.same(alone, warm)


def test_going_on_from_ones_own_answer_is_beginning_anew(given: Given) -> None:
    """The blocks of generated tokens hold what a prompt of these tokens would compute."""
    engine = given.engine()
    first = answer(engine, asked())
    prompt = [*asked().prompt, *first.tokens("r"), 9]
    again = request("again", prompt, max_tokens=20, ignore_eos=True, logprobs=3)
    warm = answer(engine, again)
    assert warm.finish("again").cached_tokens == 128
    given.same(answer(given.engine(caching=False), again), warm, "again")


def test_a_prompt_that_waited_for_its_twin_is_alone(given: Given) -> None:
    twins = [asked(), msgspec.structs.replace(asked(), id="twin")]
    engine = given.engine(max_step_tokens=40)
    answers = answer(engine, *twins, *others(5))
    assert answers.finish("twin").cached_tokens == 64
    alone = answer(given.engine(caching=False), twins[1])
    given.same(alone, answers, "twin")


def test_an_evicted_beginning_is_computed_again(given: Given) -> None:
    alone = answer(given.engine(), asked())
    engine = given.engine(blocks=6)
    answer(engine, asked())
    answer(engine, *others(4))
    warm = answer(engine, asked())
    assert engine.status().evictions > 0
    given.same(alone, warm)


def test_preempted_is_uninterrupted(given: Given) -> None:
    alone = answer(given.engine(), asked())
    small = given.engine(blocks=8)
    crowd = [
        request(f"old-{i}", [5 + i] * 30, max_tokens=90, ignore_eos=True, temperature=1.0)
        for i in range(2)
    ]
    answers = answer(small, *crowd, asked())
    assert small.status().preemptions == 1
    assert small._scheduler.running == []
    given.same(alone, answers)


@pytest.mark.parametrize("cut", [1, 7, 25, 39])
def test_resumed_in_another_engine_is_uninterrupted(given: Given, cut: int) -> None:
    alone = answer(given.engine(), asked())
    seen = alone.outputs["r"][:cut]
    tokens = [token for output in seen for token in output.tokens]
    resumed = msgspec.structs.replace(asked(), generated=array("i", tokens))
    rest = answer(given.engine(max_step_tokens=47), *others(3), resumed)
    rest.outputs["r"][:0] = seen
    given.same(alone, rest)


def test_overlapped_is_synchronous(given: Given) -> None:
    requests = [asked(), *others(12), request("stop", max_tokens=60, stop=("a", "b", "c"))]
    one = answer(given.engine(blocks=12), *requests)
    other = answer(given.engine(blocks=12, synchronous=True), *requests)
    given.same(one, other)
    for each in requests:
        assert one.outputs[each.id][-1] == other.outputs[each.id][-1]
        assert one.tokens(each.id) == other.tokens(each.id)


@pytest.mark.parametrize("isa", available_isas())
@pytest.mark.parametrize("beside", [0, 31])
def test_one_thread_is_two(beside: int, isa: str) -> None:
    given = Given(CpuBackend(isa), exact=True)
    requests = [asked(), *others(beside)]
    one = answer(given.engine(threads=1), *requests)
    given.same(one, answer(given.engine(threads=2), *requests))


def test_every_instruction_set_says_the_same() -> None:
    requests = [asked(), *others(7)]
    best, *rest = [Given(CpuBackend(isa), exact=True) for isa in available_isas()]
    expected = answer(best.engine(threads=2), *requests)
    for given in rest:
        given.same(expected, answer(given.engine(threads=2), *requests))


def test_greedy_is_a_full_recompute_of_every_token(given: Given) -> None:
    prompt = asked().prompt
    answers = answer(
        given.engine(), request("r", prompt, max_tokens=30, ignore_eos=True, logprobs=0)
    )
    assert answers.tokens("r") == recomputed(given.backend, prompt, 30)


def recomputed(backend: Backend, prompt: list[int], count: int) -> list[int]:
    """Greedy tokens, each from one pass over all tokens before it in a fresh KV cache."""
    limits = Limits(tokens=256, sequences=1, blocks=8, threads=1)
    executable = backend.load(tiny.program(), tiny.RandomWeights(), limits)
    tokens = list(prompt)
    for _ in range(count):
        size = len(tokens)
        blocks = np.arange(-(-size // BLOCK_SIZE), dtype=np.int32)[None]
        executable.launch(
            Batch(
                tokens=np.array(tokens, np.int32),
                positions=np.arange(size, dtype=np.int32),
                starts=np.array([0, size], np.int32),
                block_tables=blocks,
                logit_rows=np.array([size - 1], np.int32),
            )
        )
        tokens.append(int(executable.logits()[0].argmax()))
    return tokens[len(prompt) :]


def test_seed_and_choice_make_answers_differ_and_repeat(given: Given) -> None:
    engine = given.engine()

    def run(seed: int, choice: int = 0) -> tuple[int, ...]:
        return tuple(answer(engine, asked(seed=seed, choice=choice)).tokens("r"))

    assert len({run(seed) for seed in range(4)} | {run(0, choice) for choice in range(1, 4)}) == 7
    assert run(2) == run(2)
