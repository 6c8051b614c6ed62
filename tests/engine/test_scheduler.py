from __future__ import annotations

from itertools import count

import pytest

from headrace.engine.blocks import BlockPool
from headrace.engine.budget import StepBudget
from headrace.engine.scheduler import Plan, Scheduler
from headrace.engine.sequence import Sequence
from headrace.ops.backend import BLOCK_SIZE

from .fakes import FakeTextStream, Sliced, request


class Desk:
    """A scheduler with what makes sequences for it and plays the runner's part."""

    def __init__(
        self,
        *,
        blocks: int = 100,
        max_sequences: int = 8,
        max_step_tokens: int = 16,
        caching: bool = True,
        sliced: bool = False,
    ) -> None:
        self.pool = BlockPool(blocks, caching=caching)
        self.prompts = count(1)
        self.sequences: list[Sequence] = []
        self.scheduler = Scheduler(
            self.pool,
            Sliced(max_step_tokens) if sliced else StepBudget(max_step_tokens),
            max_sequences=max_sequences,
            context_length=1000,
        )

    def add(self, prompt: int | list[int], max_tokens: int = 100, **options: object) -> Sequence:
        """A sequence with that prompt, or with one of that length, which no other one shares."""
        if isinstance(prompt, int):
            prompt = [next(self.prompts)] * prompt
        asked = request(prompt=prompt, max_tokens=max_tokens, **options)
        text = FakeTextStream(())
        sequence = Sequence(asked, self.pool, text, frozenset())
        self.scheduler.add(sequence)
        self.sequences.append(sequence)
        return sequence

    def step(self) -> dict[Sequence, int]:
        """Plan and complete a step; who got how many tokens."""
        plan = self.scheduler.plan()
        self.complete(plan)
        return {share.sequence: share.count for share in plan.shares}

    def complete(self, plan: Plan, prefilled: int = 0) -> None:
        drawn = [share.sequence for share in plan.shares if share.samples]
        self.scheduler.complete(plan, prefilled=prefilled)
        for sequence in drawn:
            if not sequence.ended:
                sequence.append(7)
        self.pool.check()

    def slice(self, tokens: int) -> tuple[dict[Sequence, int], Sequence | None]:
        """A step in which the prompt beside it comes on by so many tokens; and whose it is."""
        plan = self.scheduler.plan()
        assert (plan.slice_seconds > 0) == (plan.beside is not None)
        self.complete(plan, tokens)
        beside = None if plan.beside is None else plan.beside.sequence
        return {share.sequence: share.count for share in plan.shares}, beside

    def step_until(self, sequence: Sequence, generated: int) -> None:
        while sequence.generated < generated:
            self.step()


def test_an_idle_scheduler_plans_nothing() -> None:
    assert Desk().step() == {}


def test_prompts_share_the_budget_in_order_of_arrival_and_in_chunks() -> None:
    desk = Desk(max_step_tokens=16)
    first, second, third = desk.add(20), desk.add(10), desk.add(3)
    assert desk.step() == {first: 16}
    assert desk.step() == {first: 4, second: 10, third: 2}
    assert desk.step() == {first: 1, second: 1, third: 1}


def test_beside_decodes_prompts_that_end_go_one_a_step() -> None:
    desk = Desk(max_step_tokens=100)
    decoding = desk.add(3)
    desk.step()
    first, second = desk.add(40), desk.add(40)
    assert desk.step() == {decoding: 1, first: 40}
    assert desk.step() == {decoding: 1, first: 1, second: 40}


def test_short_prompts_share_a_step_until_it_is_worth_its_while() -> None:
    desk = Desk(max_step_tokens=100)
    decoding = desk.add(3)
    desk.step()
    prompts = [desk.add(10) for _ in range(5)]
    assert desk.step() == {decoding: 1} | dict.fromkeys(prompts[:4], 10)


def test_where_nobody_decodes_steps_are_filled() -> None:
    desk = Desk(max_step_tokens=100)
    first, second = desk.add(40), desk.add(40)
    assert desk.step() == {first: 40, second: 40}


def test_a_prompt_never_delays_a_decode() -> None:
    desk = Desk(max_step_tokens=8)
    short = desk.add(2)
    desk.step()
    long = desk.add(100)
    for _ in range(10):
        assert desk.step() == {short: 1, long: 7}


def test_nobody_runs_beyond_max_sequences_and_the_next_gets_the_place() -> None:
    desk = Desk(max_sequences=2)
    first, second, third = desk.add(1), desk.add(1), desk.add(1)
    assert desk.step() == {first: 1, second: 1}
    desk.scheduler.retire(first)
    assert desk.step() == {second: 1, third: 1}


def test_the_budget_must_give_every_sequence_its_token() -> None:
    with pytest.raises(ValueError, match="max_step_tokens"):
        Desk(max_sequences=17, max_step_tokens=16)


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "fault"),
    [(64, 1, "no room"), (63, 1, None), (10, 55, "together more"), (10, 54, None)],
)
def test_what_can_never_fit_is_refused(prompt: int, max_tokens: int, fault: str | None) -> None:
    scheduler = Desk(blocks=2).scheduler
    assert scheduler.context_length == 2 * BLOCK_SIZE
    refusal = scheduler.refusal(prompt, max_tokens)
    assert refusal is None if fault is None else fault in (refusal or "")


def test_a_long_prompt_at_the_head_is_not_passed_by_short_ones() -> None:
    desk = Desk(blocks=4, max_step_tokens=200)
    running = desk.add(BLOCK_SIZE + 1, 20)
    desk.step()
    long, short = desk.add(3 * BLOCK_SIZE, 1), desk.add(1, 1)
    assert desk.step() == {running: 1}
    assert list(desk.scheduler.waiting) == [long, short]
    desk.scheduler.retire(running)
    assert list(desk.step()) == [long]
    assert list(desk.scheduler.waiting) == [short]


def test_short_prompts_go_on_beside_a_long_one() -> None:
    desk = Desk(max_step_tokens=16)
    long = desk.add(200, long=True)
    assert desk.step() == {long: 16}, "it is alone"
    short, other = desk.add(20), desk.add(4)
    assert desk.step() == {long: 4, short: 12}
    assert desk.step() == {long: 4, short: 8, other: 4}
    assert desk.step() == {short: 1, other: 1, long: 8}, "no step was measured yet"


def test_the_youngest_is_preempted_and_comes_back_with_all_its_blocks() -> None:
    desk = Desk(blocks=4, max_step_tokens=80)
    old = desk.add(BLOCK_SIZE - 1, 3 * BLOCK_SIZE)
    young = desk.add(BLOCK_SIZE - 1, 3 * BLOCK_SIZE)
    while not desk.scheduler.preemptions:
        desk.step()
    tokens = list(young.tokens)
    assert desk.scheduler.running == [old]
    assert list(desk.scheduler.waiting) == [young]
    assert (young.computed, len(young.table)) == (0, 0)

    late = desk.add(1, 1)
    desk.step()
    assert list(desk.scheduler.waiting) == [young, late]
    desk.scheduler.retire(old)
    desk.step()
    assert list(young.tokens[: len(tokens)]) == tokens
    assert len(young.table) == 4
    desk.step_until(young, 3 * BLOCK_SIZE)
    assert desk.scheduler.preemptions == 1


def test_a_sequence_that_asks_for_a_block_and_is_itself_the_youngest_goes() -> None:
    desk = Desk(blocks=4, max_step_tokens=200)
    old = desk.add(2 * BLOCK_SIZE - 15, 40)  # asks for the last block first
    young = desk.add(BLOCK_SIZE - 16, 90)
    late = desk.add(4 * BLOCK_SIZE - 1, 1)
    while not desk.scheduler.preemptions:
        desk.step()
    assert len(old.table) == 3
    assert desk.scheduler.running == [old]
    assert list(desk.scheduler.waiting) == [young, late]


def test_blocks_of_a_step_that_runs_are_freed_when_it_is_over() -> None:
    desk = Desk()
    sequence = desk.add(40)
    plan = desk.scheduler.plan()
    desk.scheduler.retire(sequence)
    assert desk.scheduler.running == []
    assert desk.pool.available == desk.pool.total - 2
    desk.complete(plan)
    assert desk.pool.available == desk.pool.total


def test_a_cancelled_sequence_outside_the_step_lets_go_at_once() -> None:
    desk = Desk(max_sequences=1)
    first, second = desk.add(40), desk.add(40)
    desk.step()
    desk.scheduler.retire(first)
    desk.scheduler.retire(second)
    assert desk.pool.available == desk.pool.total
    assert desk.step() == {}


# Classes


def test_the_lowest_class_gives_way_and_in_it_the_youngest() -> None:
    desk = Desk(blocks=9, max_step_tokens=200)
    vip, old, young, most = (
        desk.add(BLOCK_SIZE - 1, 7 * BLOCK_SIZE, priority=priority) for priority in (1, 0, 0, 2)
    )
    while desk.scheduler.preemptions < 1:
        desk.step()
    assert list(desk.scheduler.waiting) == [young]
    while desk.scheduler.preemptions < 2:
        desk.step()
    assert list(desk.scheduler.waiting) == [old, young]
    assert desk.scheduler.running == [vip, most]


def test_a_victim_never_has_its_share_already() -> None:
    """The oldest is of the lowest class: it comes last, so that it can still give way."""
    desk = Desk(blocks=5, max_step_tokens=200)
    low = desk.add(2 * BLOCK_SIZE - 1, 65, priority=-1)
    high = desk.add(2 * BLOCK_SIZE - 1, 65)
    while not desk.scheduler.preemptions:
        shares = desk.step()
    assert list(desk.scheduler.waiting) == [low]
    assert shares == {high: 1}


def test_whoever_was_preempted_keeps_its_blocks_even_from_a_higher_class() -> None:
    desk = Desk(blocks=5, max_step_tokens=200)
    low = desk.add(2 * BLOCK_SIZE - 1, 65, priority=-1)
    high = desk.add(2 * BLOCK_SIZE - 1, 65)
    while not desk.scheduler.preemptions:
        desk.step()
    late = desk.add(BLOCK_SIZE, 3 * BLOCK_SIZE, priority=9)
    desk.scheduler.retire(high)
    desk.step()
    assert desk.scheduler.running == [low]
    desk.step_until(low, 65)
    desk.scheduler.retire(low)
    assert list(desk.step()) == [late]
    assert desk.scheduler.preemptions == 1


# Prefixes


BEGINNING = list(range(2 * BLOCK_SIZE))


def test_a_prompt_takes_over_what_an_earlier_one_computed() -> None:
    desk = Desk(max_step_tokens=200)
    first = desk.add([*BEGINNING, 1], 1)
    desk.step()
    desk.scheduler.retire(first)
    second = desk.add([*BEGINNING, 2, 2], 1)
    assert desk.step() == {second: 2}
    assert (second.cached_tokens, desk.scheduler.hit_tokens) == (2 * BLOCK_SIZE,) * 2
    assert desk.scheduler.prefilled_tokens == 2 * BLOCK_SIZE + 1 + 2


def test_the_last_token_is_always_computed() -> None:
    desk = Desk(max_step_tokens=200)
    desk.add(BEGINNING)
    desk.step()
    second = desk.add(BEGINNING)
    assert desk.step()[second] == BLOCK_SIZE
    assert second.cached_tokens == BLOCK_SIZE


def test_generated_tokens_are_taken_over_too() -> None:
    desk = Desk(max_step_tokens=200)
    first = desk.add([5] * 20, 100)
    desk.step_until(first, 60)
    desk.scheduler.retire(first)
    second = desk.add([*first.tokens, 9, 9], 1)
    desk.step()
    assert second.cached_tokens == 2 * BLOCK_SIZE


def test_of_two_equal_prompts_that_come_together_one_is_computed() -> None:
    desk = Desk(max_step_tokens=40)
    first, second = desk.add([*BEGINNING, 1]), desk.add([*BEGINNING, 2])
    other = desk.add(3)
    assert desk.step() == {first: 40}
    assert desk.step() == {first: 25, other: 3}
    assert desk.step() == {first: 1, other: 1, second: 1}
    assert (first.cached_tokens, second.cached_tokens) == (0, 2 * BLOCK_SIZE)
    assert desk.pool.owned == 2 + 1 + 1 + 1


def test_if_the_first_of_them_leaves_the_second_goes_on() -> None:
    desk = Desk(max_step_tokens=40)
    first, second = desk.add([*BEGINNING, 1]), desk.add([*BEGINNING, 2])
    assert desk.step() == {first: 40}
    desk.scheduler.retire(first)
    assert desk.step() == {second: 33}
    assert second.cached_tokens == BLOCK_SIZE


def test_other_namespaces_find_nothing_but_what_is_published() -> None:
    desk = Desk(max_step_tokens=400)
    desk.add([*BEGINNING, 1], namespace="a", published=BLOCK_SIZE)
    desk.step()
    same = desk.add([*BEGINNING, 2], namespace="a", published=BLOCK_SIZE)
    other = desk.add([*BEGINNING, 3], namespace="b", published=BLOCK_SIZE)
    unmarked = desk.add([*BEGINNING, 4], namespace="b")
    desk.step()
    found = [s.cached_tokens for s in (same, other, unmarked)]
    assert found == [2 * BLOCK_SIZE, BLOCK_SIZE, 0]


def test_without_a_cache_nothing_is_kept_and_nobody_stands_back() -> None:
    desk = Desk(max_step_tokens=200, caching=False)
    first, second = desk.add([*BEGINNING, 1]), desk.add([*BEGINNING, 2])
    assert desk.step() == {first: 65, second: 65}
    desk.scheduler.retire(first)
    desk.scheduler.retire(second)
    assert desk.pool.free == desk.pool.total
    assert desk.scheduler.hit_tokens == 0


def test_a_hit_needs_no_block_that_its_owner_has() -> None:
    """The pool has room for the shared beginning once, not twice."""
    desk = Desk(blocks=5, max_step_tokens=200)
    first = desk.add([*BEGINNING, 1], 10)
    desk.step()
    second = desk.add([*BEGINNING, 2], 10)
    assert desk.step() == {first: 1, second: 1}


def test_a_victim_comes_back_to_what_is_left_of_its_blocks() -> None:
    desk = Desk(blocks=7, max_step_tokens=200)
    old, young = desk.add(3 * BLOCK_SIZE - 1, 40), desk.add(3 * BLOCK_SIZE - 1, 40)
    while not desk.scheduler.preemptions:
        desk.step()
    assert list(desk.scheduler.waiting) == [young]
    desk.scheduler.retire(old)
    desk.step()
    assert young.computed == young.wanted - 1 - (young not in desk.scheduler.running)
    assert desk.scheduler.hit_tokens > 0
    assert young.cached_tokens == 0


def test_blocks_of_a_faulty_sequence_are_shared_with_nobody() -> None:
    desk = Desk(max_step_tokens=40)
    first = desk.add([*BEGINNING, 1])
    desk.step()
    plan = desk.scheduler.plan()
    desk.scheduler.complete(plan, [first])
    desk.scheduler.retire(first)
    desk.pool.check()
    assert desk.pool.free == desk.pool.total
    second = desk.add([*BEGINNING, 2])
    desk.step()
    assert second.cached_tokens == 0


def with_a_decode() -> tuple[Desk, Sequence]:
    """A desk whose prompts go beside the steps of that sequence, if they do not fit in them."""
    desk = Desk(sliced=True)
    decode = desk.add(4)
    desk.step()
    return desk, decode


def test_what_does_not_fit_beside_decodes_goes_beside_the_steps() -> None:
    desk, decode = with_a_decode()
    prompt, behind = desk.add(40), desk.add(3)
    assert desk.slice(0) == ({decode: 1}, prompt)  # it keeps its place: who came later waits
    assert desk.slice(32) == ({decode: 1}, prompt)
    assert desk.slice(7) == ({decode: 1}, prompt)
    assert prompt.pending == 1
    assert desk.slice(0) == ({decode: 1, prompt: 1, behind: 3}, None)
    assert (prompt.generated, behind.generated) == (1, 1)


def test_what_fits_stays_in_steps_and_so_does_all_where_nobody_decodes() -> None:
    desk = Desk(sliced=True)
    first = desk.add(30)
    assert desk.slice(0) == ({first: 16}, None)
    desk.step()
    short = desk.add(8)
    assert desk.slice(0) == ({first: 1, short: 8}, None)


def test_a_prompt_whose_tokens_are_scored_stays_in_steps() -> None:
    desk, decode = with_a_decode()
    scored = desk.add(40, logprobs=0, prompt_logprobs=True)
    assert desk.slice(0) == ({decode: 1, scored: 7}, None)


def test_short_prompts_join_steps_beside_a_long_one() -> None:
    desk, decode = with_a_decode()
    long, short = desk.add(40, long=True), desk.add(3)
    assert desk.slice(0) == ({decode: 1, short: 3}, long)
    twin = desk.add(list(long.tokens)[:34])
    assert desk.slice(16) == ({decode: 1, short: 1}, long)
    assert twin.computed == 0  # it waits for what is computed beside
    assert desk.slice(23) == ({decode: 1, short: 1}, long)
    assert desk.slice(0) == ({decode: 1, short: 1, long: 1, twin: 2}, None)
    assert twin.cached_tokens == 32


def test_who_leaves_from_beside_makes_room_for_the_next() -> None:
    desk, decode = with_a_decode()
    prompt, other = desk.add(40), desk.add(50)
    plan = desk.scheduler.plan()
    assert plan.beside is not None
    assert plan.beside.sequence is prompt
    desk.scheduler.retire(prompt)
    assert len(prompt.table) == 2  # a step that runs may write there
    desk.complete(plan, 8)
    assert len(prompt.table) == 0
    assert desk.slice(0) == ({decode: 1}, other)
    desk.scheduler.retire(other)
    assert len(other.table) == 0
    assert desk.slice(0) == ({decode: 1}, None)


def test_a_victim_beside_the_steps_begins_anew() -> None:
    desk = Desk(blocks=7, sliced=True)
    large = desk.add(61)
    desk.step_until(large, 1)
    small = desk.add(4)
    desk.step()
    prompt = desk.add(60, max_tokens=2)
    first = desk.scheduler.plan()
    assert first.beside is not None
    assert first.beside.sequence is prompt
    desk.complete(first, 40)
    while not desk.scheduler.preemptions:
        assert desk.slice(0)[1] in (prompt, None)
    assert (prompt.computed, len(prompt.table)) == (0, 0)
    assert desk.slice(0) == ({large: 1, small: 1}, None)
    desk.scheduler.retire(large)
    second = desk.scheduler.plan()
    assert second.beside is not None
    assert second.beside is not first.beside
    assert (second.beside.sequence, second.beside.first) == (prompt, 32)  # what was in the cache
    desk.complete(second, 27)
    assert desk.slice(0) == ({small: 1, prompt: 1}, None)


def test_blocks_computed_beside_a_faulty_step_are_shared_with_nobody() -> None:
    desk, _ = with_a_decode()
    prompt = desk.add(60)
    desk.slice(40)
    plan = desk.scheduler.plan()
    assert prompt in plan.sequences
    desk.scheduler.complete(plan, plan.sequences, prefilled=10)
    assert prompt.computed == 40
    for sequence in plan.sequences:
        desk.scheduler.retire(sequence)
    assert desk.pool.free == desk.pool.total
