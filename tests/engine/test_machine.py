"""Random arrivals, cancels and steps on a pool that is too small, against the model alone.

Prompts begin alike often enough that blocks are shared, evicted and found again; some tenants
may share them, some may not. Some answers follow a grammar, which may take its time to be there.
"""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.engine.draws import draws, stream_key
from headrace.engine.request import GenerationRequest
from headrace.engine.scheduler import Plan, Scheduler
from headrace.engine.sequence import Sequence
from headrace.engine.status import EngineStatus
from headrace.ops.backend import BLOCK_SIZE, Masks, Sampling
from headrace.ops.sampling import sample_rows

from .fakes import (
    EOS,
    VOCAB,
    Answers,
    Form,
    Forms,
    Sliced,
    fake_engine,
    hashed,
    request,
    speculator,
)

BLOCKS = 6
MAX_SEQUENCES = 5
STEP_TOKENS = 24
MOST_POLLS = 8
"""Steps for which a grammar is not there yet."""


class WatchedScheduler(Scheduler):
    """The real one; asserts of every plan what the scheduler promises."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.arrivals: dict[Sequence, int] = {}
        self.preempted: Counter[Sequence] = Counter()
        self.admitted: list[int] = []
        self.contents: dict[int, Content] = {}  # of blocks, when they were published

    def add(self, sequence: Sequence) -> None:
        assert (sequence.constraint is None) == (sequence.request.grammar is None)
        self.arrivals[sequence] = len(self.arrivals)
        super().add(sequence)

    def plan(self) -> Plan:
        decodes = [s for s in self.running if s.decodes]
        assert all(s.pending <= BLOCK_SIZE for s in decodes)
        had_work = bool(self.waiting or self.running)
        plan = super().plan()
        shares = {share.sequence: share.count for share in plan.shares}
        assert len(shares) == len(plan.shares) <= MAX_SEQUENCES
        guesses = {share.sequence: len(share.guesses) for share in plan.shares}
        assert plan.load.tokens == sum(shares.values()) + sum(guesses.values()) <= STEP_TOKENS
        assert plan.rows <= MAX_SEQUENCES
        for sequence, count in guesses.items():
            assert not count or sequence in decodes
            assert sequence.wanted + count <= sequence.most_computed, "a guess too many"
        assert all(count >= 1 for count in shares.values())
        assert bool(plan) == had_work, "work, but an empty plan"
        assert all(shares[s] <= s.pending for s in decodes if s in self.running)
        prompts = [s for s in self.running if s not in decodes]
        if prompts:
            assert prompts[0] in plan.sequences, "the first prompt stands still"
        assert len(set(plan.sequences)) == len(plan.sequences)
        if plan.beside is not None:
            sequence = plan.beside.sequence
            assert sequence.computed < plan.beside.last
            assert plan.slice_seconds > 0
        assert list(self.waiting) == sorted(self.waiting, key=self.arrivals.__getitem__)
        return plan

    def _admit(self, sequence: Sequence) -> bool:
        admitted = super()._admit(sequence)
        if admitted and not self.preempted[sequence]:
            number = self.arrivals[sequence]
            assert all(other < number for other in self.admitted), "passed in the line"
            self.admitted.append(number)
        return admitted

    def _preempt(self, sequence: Sequence) -> None:
        standing = sequence.request.priority, -self.arrivals[sequence]
        for other in self.running:
            if not other.reserved:
                before = other.request.priority, -self.arrivals[other]
                assert standing <= before, "the wrong victim"
        super()._preempt(sequence)
        self.preempted[sequence] += 1
        assert self.preempted[sequence] == 1, "preempted twice"

    def _advance(self, sequence: Sequence, count: int) -> None:
        first = sequence.computed // BLOCK_SIZE
        super()._advance(sequence, count)
        for index in range(first, sequence.computed // BLOCK_SIZE):
            block = int(sequence.table.blocks[index])
            self.contents[block] = content(sequence, index)

    def _adopt(self, sequence: Sequence, hits: list[int]) -> None:
        first = sequence.computed // BLOCK_SIZE
        for index, block in enumerate(hits, first):
            assert self.contents[block] == content(sequence, index), "another's block"
        super()._adopt(sequence, hits)

    def check_cache(self) -> None:
        """Whatever can be found can be reached from its beginning."""
        there = {self.contents[block] for block in self.pool._published.values()}
        for _, tokens in there:
            if before := tokens[:-BLOCK_SIZE]:
                assert any(before == other for _, other in there), "evicted before its end"


Content = tuple[str, tuple[int, ...]]
"""Whose a block is ("" for everyone's) and all tokens up to its end."""


def content(sequence: Sequence, index: int) -> Content:
    end = (index + 1) * BLOCK_SIZE
    shared = end <= sequence.request.published
    return "" if shared else sequence.request.namespace, tuple(sequence.tokens[:end])


def alone(asked: GenerationRequest) -> list[int]:
    """The tokens of a request, from the model and the definitions: no engine at all. Each is
    drawn, whether a grammar leaves a choice or not."""
    sampling, stopping = asked.sampling, asked.stopping
    key = np.array([stream_key(sampling.seed, sampling.choice)], np.uint64)
    tokens = list(asked.prompt)
    form = None if asked.grammar is None else Form(asked.grammar.text, {EOS})
    while len(tokens) - len(asked.prompt) < stopping.max_tokens:
        how = Sampling(
            temperature=np.array([sampling.temperature], np.float32),
            top_k=np.array([sampling.top_k], np.int32),
            top_p=np.array([sampling.top_p], np.float32),
            min_p=np.array([sampling.min_p], np.float32),
            draw=draws(key, np.array([len(tokens)], np.uint64)),
            top_logprobs=np.array([-1], np.int32),
            masks=None if form is None else only_row(form),
        )
        tokens.append(int(sample_rows(hashed(tokens)[None], how).tokens[0]))
        text = "".join(map(chr, tokens[len(asked.prompt) :]))
        if tokens[-1] == EOS or any(stop in text for stop in stopping.stop):
            break
        if form is not None:
            form.accept(tokens[-1])
            if form.exhausted:
                break
    return tokens[len(asked.prompt) :]


def only_row(form: Form) -> Masks:
    allowed = np.zeros((1, VOCAB // 32), np.uint32)
    form.mask(allowed[0])
    return Masks(np.zeros(1, np.int32), allowed)


FORMS = ("{?: *}", "?*" * 9, "?" + "x" * 45 + "?" + "K" * 60, "!no grammar")


@st.composite
def requests(draw: st.DrawFn) -> GenerationRequest:
    room = BLOCKS * BLOCK_SIZE
    short, any_length = st.integers(1, 40), st.integers(1, room - 1)
    size = draw(st.one_of(short, short, any_length))
    beginning = [draw(st.sampled_from([1, 2]))] * draw(st.sampled_from([0, 32, 64, 70]))
    prompt = (beginning + [draw(st.integers(0, 127))] * size)[: room - 1]
    return request(
        prompt=prompt,
        namespace=draw(st.sampled_from("ab")),
        published=min(draw(st.sampled_from([0, 0, 40])), len(beginning)),
        priority=draw(st.sampled_from([0, 0, 1])),
        long=draw(st.booleans()),
        max_tokens=draw(st.integers(1, min(150, room - len(prompt)))),
        stop=draw(st.sampled_from([(), ("a", "}x"), ("K",)])),
        temperature=draw(st.sampled_from([0.0, 1.0])),
        seed=draw(st.integers(0, 9)),
        grammar=draw(st.sampled_from([None, None, *FORMS])),
    )


class EngineMachine(RuleBasedStateMachine):
    synchronous = False
    caching = True
    guessing = False
    slices = False

    def __init__(self) -> None:
        super().__init__()
        self.forms = Forms()
        self.engine = fake_engine(
            constraints=self.forms,
            caching=self.caching,
            blocks=BLOCKS,
            max_sequences=MAX_SEQUENCES,
            max_step_tokens=STEP_TOKENS,
            synchronous=self.synchronous,
            scheduler=WatchedScheduler,
            speculator=speculator() if self.guessing else None,
            budget=Sliced(STEP_TOKENS) if self.slices else None,
        )
        self.engine.patience = 0
        self.scheduler = self.engine._scheduler
        self.answers = Answers()
        self.asked: dict[str, GenerationRequest] = {}
        self.cancelled: set[str] = set()

    @rule(
        burst=st.lists(requests(), min_size=1, max_size=5),
        polls=st.sampled_from([0, 0, 1, MOST_POLLS]),
    )
    def submit(self, burst: list[GenerationRequest], polls: int) -> None:
        self.forms.polls = polls
        for asked in burst:
            id = str(len(self.asked))
            self.asked[id] = msgspec.structs.replace(asked, id=id)
            self.engine.submit(self.asked[id])

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(sorted(self.asked)))
        self.cancelled.add(id)
        self.engine.cancel(id)

    @rule(steps=st.integers(1, 40))
    def step(self, steps: int) -> None:
        for _ in range(steps):
            self.answers.take(self.engine.step())
            self.blocks_are_accounted_for()

    @invariant()
    def blocks_are_accounted_for(self) -> None:
        pool, flying = self.scheduler.pool, self.engine._in_flight
        pool.check()
        holders = {*self.scheduler.running}
        if flying is not None:
            holders |= set(flying.plan.sequences)
        assert pool.owned == len({b for s in holders for b in s.table.blocks.tolist()})
        assert not any(len(s.table) for s in self.scheduler.waiting)
        assert pool.free + pool.cached + pool.owned == pool.total
        self.scheduler.check_cache()

    def teardown(self) -> None:
        live = self.engine._live.values()
        bound = sum(2 * (s.prompt_length + s.request.stopping.max_tokens) for s in live)
        self.answers.drain(self.engine, most_steps=bound + MOST_POLLS + 2)
        status = self.engine.status()
        assert (status.running, status.waiting) == (0, 0)
        assert status.blocks_free + status.blocks_cached == BLOCKS
        for id, asked in self.asked.items():
            got, finish = self.answers.tokens(id), self.answers.finish(id)
            if asked.grammar is not None and asked.grammar.text.startswith("!"):
                assert got == []
                assert finish.reason == "refused" or id in self.cancelled
                continue
            expected = alone(asked)
            assert finish.completion_tokens == len(got)
            assert finish.cached_tokens < len(asked.prompt)
            if finish.reason == "cancelled":
                assert id in self.cancelled
                assert got == expected[: len(got)]
            else:
                assert got == expected


class GuessingMachine(EngineMachine):
    guessing = True


class SlicingMachine(EngineMachine):
    """Whatever does not fit in eight tokens of a step goes beside the steps."""

    slices = True


class SlicingAndGuessingMachine(SlicingMachine):
    guessing = True
    synchronous = True


class SynchronousMachine(EngineMachine):
    synchronous = True


class MachineWithoutCache(EngineMachine):
    caching = False


quick = settings(
    max_examples=20,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
fewer = settings(quick, max_examples=10)
"""For what differs from the first in one part."""
TestEngine = EngineMachine.TestCase
TestEngine.settings = quick
TestGuessingEngine = GuessingMachine.TestCase
TestGuessingEngine.settings = quick
TestSlicingEngine = SlicingMachine.TestCase
TestSlicingEngine.settings = quick
TestSlicingAndGuessingEngine = SlicingAndGuessingMachine.TestCase
TestSlicingAndGuessingEngine.settings = fewer
TestSynchronousEngine = SynchronousMachine.TestCase
TestSynchronousEngine.settings = fewer
TestEngineWithoutCache = MachineWithoutCache.TestCase
TestEngineWithoutCache.settings = fewer


def small_pool(prompts: list[list[int]], **options: object) -> EngineStatus:
    """What the pool of the machines above comes to when these are answered at once."""
    engine = fake_engine(
        blocks=BLOCKS,
        max_sequences=MAX_SEQUENCES,
        max_step_tokens=STEP_TOKENS,
        **{"scheduler": WatchedScheduler, **options},
    )
    asked = [
        request(str(i), prompt, max_tokens=80, temperature=1.0, seed=i)
        for i, prompt in enumerate(prompts)
    ]
    answers = Answers()
    for each in asked:
        engine.submit(each)
    answers.drain(engine)
    for each in asked:
        assert answers.tokens(each.id) == alone(each)
    return engine.status()


def test_such_pools_do_preempt() -> None:
    """The machines above would prove little if they never ran out of blocks."""
    assert small_pool([[i] * 20 for i in range(5)]).preemptions >= 2


def test_such_pools_do_evict_and_hit() -> None:
    status = small_pool([[1] * 32 * (i % 2) + [i] * 20 for i in range(5)])
    assert status.preemptions >= 1
    assert status.evictions >= 2
    assert status.hit_tokens >= 32


def test_such_steps_do_send_prompts_beside() -> None:
    beside: set[Sequence] = set()

    class Watched(WatchedScheduler):
        def plan(self) -> Plan:
            plan = super().plan()
            if plan.beside is not None:
                beside.add(plan.beside.sequence)
            return plan

    status = small_pool([[i] * 40 for i in range(5)], budget=Sliced(STEP_TOKENS), scheduler=Watched)
    assert len(beside) >= 2
    assert status.preemptions >= 1
