"""Counters in memory, by a clock of the test's own."""

from __future__ import annotations

import asyncio
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from headrace.quotas.limit import Draw, Level
from headrace.quotas.memory import FORGET_AFTER, MemoryStore
from headrace.quotas.store import Settlement

from .limits import limit, unused


class Clock:
    def __init__(self) -> None:
        self.moment = 0

    def __call__(self) -> int:
        return self.moment


SIZE = 100
STEPS = st.lists(
    st.tuples(
        st.integers(0, 90_000),  # milliseconds that pass
        st.integers(0, SIZE),  # drawn
        st.integers(0, 3 * SIZE),  # used in the end
        st.booleans(),  # settled at once, or never
    ),
    max_size=40,
)


@given(STEPS)
def test_a_bucket_is_what_arithmetic_says(steps: list[tuple[int, int, int, bool]]) -> None:
    asyncio.run(compare(steps))


async def compare(steps: list[tuple[int, int, int, bool]]) -> None:
    clock, tokens, used = Clock(), limit("rate", SIZE), Fraction(0)
    store = MemoryStore(clock)
    for number, (passes, drawn, in_the_end, settles) in enumerate(steps):
        clock.moment += passes
        used = max(Fraction(0), used - Fraction(SIZE * passes, 60_000))
        outcome = await store.reserve("a", str(number), [Draw(tokens, drawn)])
        fits = drawn == 0 or used + drawn <= SIZE
        assert (outcome.status == "granted") == fits
        if not fits:
            wait = outcome.standings[0].wait
            needed = (used + drawn - SIZE) * 60_000 / SIZE
            assert wait - 1 < needed <= wait  # true, and no longer than it must be
            continue
        used += drawn
        assert outcome.standings[0].remaining == max(0, SIZE - used) // 1
        if settles:
            await store.settle("a", str(number), [Settlement(tokens, drawn, in_the_end)])
            used = max(Fraction(0), used + in_the_end - drawn)
    (standing,) = (await store.look("a", [tokens])).standings
    assert standing.level.used == used * 60_000


async def test_what_is_at_zero_takes_no_memory() -> None:
    clock, tokens, slots = Clock(), limit("rate", 10), limit("slots", 5)
    store = MemoryStore(clock)
    for number in range(5000):
        await store.reserve(f"account-{number}", str(number), [Draw(tokens, 5), Draw(slots, 1)])
        await store.settle(f"account-{number}", str(number), unused(slots))
        clock.moment += 100
    assert len(store._counters) < 2048
    clock.moment += 60_000
    assert len(store) == 0


async def test_no_call_looks_at_more_than_a_few_counters() -> None:
    """Of 20,000 accounts, most of them forgotten meanwhile."""
    clock, tokens = Clock(), limit("rate", 10)
    store = MemoryStore(clock)
    for number in range(20_000):
        await store.reserve(f"account-{number}", str(number), [Draw(tokens, 5)])
    clock.moment += 60_000
    held = len(store._counters)
    await store.look("account-0", [tokens])
    assert held - 2 <= len(store._counters) <= held + 1
    for _ in range(held):
        await store.look("account-0", [tokens])
    assert len(store._counters) == 1


async def test_a_budget_nobody_drew_from_for_an_hour_is_asked_for_again() -> None:
    clock, budget = Clock(), limit("budget", 10)
    store = MemoryStore(clock)
    await store.seed("a", budget.counter, 3)
    clock.moment += FORGET_AFTER
    await store.reserve("a", "1", [Draw(budget, 1)])
    clock.moment += 2 * FORGET_AFTER  # while it is on its way it stays
    assert (await store.look("a", [budget])).standings[0].level == Level(4, 1)
    await store.settle("a", "1", [Settlement(budget, 1, 1)])
    clock.moment += FORGET_AFTER + 1
    assert (await store.look("a", [budget])).status == "unseeded"
