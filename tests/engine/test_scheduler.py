from __future__ import annotations

import pytest

from headrace.engine.blocks import BlockPool
from headrace.engine.scheduler import Plan, Scheduler
from headrace.engine.sequence import Sequence
from headrace.ops.backend import BLOCK_SIZE

from .fakes import FakeTextStream, request


class Desk:
    """A scheduler with what makes sequences for it and plays the runner's part."""

    def __init__(
        self, *, blocks: int = 100, max_sequences: int = 8, max_step_tokens: int = 16
    ) -> None:
        self.pool = BlockPool(blocks)
        self.scheduler = Scheduler(
            self.pool,
            max_sequences=max_sequences,
            max_step_tokens=max_step_tokens,
            context_length=1000,
        )

    def add(self, prompt: int, max_tokens: int = 100) -> Sequence:
        asked = request(prompt=[1] * prompt, max_tokens=max_tokens)
        text = FakeTextStream(())
        sequence = Sequence(asked, self.pool, text, frozenset())
        self.scheduler.add(sequence)
        return sequence

    def step(self) -> dict[Sequence, int]:
        """Plan and complete a step; who got how many tokens."""
        plan = self.scheduler.plan()
        self.complete(plan)
        return {share.sequence: share.count for share in plan.shares}

    def complete(self, plan: Plan) -> None:
        drawn = [share.sequence for share in plan.shares if share.samples]
        self.scheduler.complete(plan)
        for sequence in drawn:
            if not sequence.ended:
                sequence.append(7)
        self.pool.check()

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
    assert young.tokens[: len(tokens)] == tokens
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
    assert desk.pool.free == desk.pool.total - 2
    desk.complete(plan)
    assert desk.pool.free == desk.pool.total


def test_a_cancelled_sequence_outside_the_step_lets_go_at_once() -> None:
    desk = Desk(max_sequences=1)
    first, second = desk.add(40), desk.add(40)
    desk.step()
    desk.scheduler.retire(first)
    desk.scheduler.retire(second)
    assert desk.pool.free == desk.pool.total
    assert desk.step() == {}
