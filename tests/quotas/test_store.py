"""What every store of counters promises, whether one edge uses it or many."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from itertools import count

import pytest

from headrace.quotas.limit import MINUTE, Draw, Limit
from headrace.quotas.store import Settlement, Store

from .limits import limit, unused

REQUESTS = limit("rate", 60)
TOKENS = limit("rate", 100, "input_tokens_per_minute")
SLOTS = limit("slots", 3)
BUDGET = limit("budget", 5_000_000_000)
ALL = [REQUESTS, TOKENS, SLOTS, BUDGET]


async def used(store: Store, account: str, *limits: Limit) -> list[int]:
    """Of a bucket in whole ones, begun ones included."""
    outcome = await store.look(account, limits)
    assert outcome.status == "granted"
    return [standing.used for standing in outcome.standings]


async def test_what_was_never_drawn_from_is_at_zero(store: Store, account: str) -> None:
    assert await used(store, account, REQUESTS, SLOTS) == [0, 0]


async def test_a_reservation_draws_all_and_tells_what_is_left(store: Store, account: str) -> None:
    outcome = await store.reserve(account, "a", [Draw(TOKENS, 30), Draw(SLOTS, 1)])
    assert outcome.status == "granted"
    assert [standing.remaining for standing in outcome.standings] == [70, 2]


async def test_or_draws_nothing(store: Store, account: str) -> None:
    await store.reserve(account, "a", [Draw(SLOTS, 3)])
    outcome = await store.reserve(account, "b", [Draw(REQUESTS, 1), Draw(SLOTS, 1)])
    assert outcome.status == "refused"
    assert [standing.fits for standing in outcome.standings] == [True, False]
    assert await used(store, account, REQUESTS, SLOTS) == [0, 3]


async def test_a_bucket_is_drawn_to_its_last_and_no_further(store: Store, account: str) -> None:
    assert (await store.reserve(account, "a", [Draw(TOKENS, 100)])).status == "granted"
    outcome = await store.reserve(account, "b", [Draw(TOKENS, 100)])
    assert outcome.status == "refused"
    assert 50_000 < outcome.standings[0].wait <= 60_000


async def test_a_bucket_fills_evenly(store: Store, account: str) -> None:
    quick = limit("rate", 6000)  # one in ten milliseconds
    await store.reserve(account, "a", [Draw(quick, 6000)])
    wait = (await store.reserve(account, "b", [Draw(quick, 20)])).standings[0].wait
    assert 0 < wait <= 200
    await asyncio.sleep(wait / 1000 + 0.002)  # what it says is true
    assert (await store.reserve(account, "c", [Draw(quick, 20)])).status == "granted"


async def test_settling_gives_back_what_was_not_used(store: Store, account: str) -> None:
    await store.seed(account, BUDGET.counter, 0)
    draws = [Draw(TOKENS, 80), Draw(SLOTS, 1), Draw(BUDGET, 4_000_000_000)]
    await store.reserve(account, "a", draws)
    settlements = [
        Settlement(TOKENS, 80, 30),
        Settlement(SLOTS, 1, 0),
        Settlement(BUDGET, 4_000_000_000, 7),
    ]
    await store.settle(account, "a", settlements)
    tokens, slots, spent = await used(store, account, TOKENS, SLOTS, BUDGET)
    assert 28 <= tokens <= 30
    assert (slots, spent) == (0, 7)


async def test_what_was_used_beyond_is_a_debt(store: Store, account: str) -> None:
    await store.reserve(account, "a", [Draw(TOKENS, 50)])
    await store.settle(account, "a", [Settlement(TOKENS, 50, 150)])
    outcome = await store.reserve(account, "b", [Draw(TOKENS, 1)])
    assert outcome.status == "refused"
    assert 29_000 < outcome.standings[0].wait <= 31_000
    assert outcome.standings[0].remaining == 0


async def test_only_the_first_settlement_counts(store: Store, account: str) -> None:
    await store.seed(account, BUDGET.counter, 0)
    await store.reserve(account, "a", [Draw(SLOTS, 1), Draw(BUDGET, 10)])
    await store.reserve(account, "b", [Draw(SLOTS, 1), Draw(BUDGET, 10)])
    await store.settle(account, "a", [Settlement(SLOTS, 1, 0), Settlement(BUDGET, 10, 4)])
    assert await used(store, account, SLOTS, BUDGET) == [1, 14]
    again = [Settlement(SLOTS, 1, 0), Settlement(BUDGET, 10, 0)]
    await store.settle(account, "a", again)
    assert await used(store, account, SLOTS, BUDGET) == [1, 14]


async def test_a_reservation_that_is_there_draws_nothing_more(store: Store, account: str) -> None:
    for _ in range(5):
        outcome = await store.reserve(account, "a", [Draw(SLOTS, 2)])
        assert outcome.status == "granted"
    assert await used(store, account, SLOTS) == [2]


async def test_what_is_forced_is_drawn_whether_or_not_it_fits(store: Store, account: str) -> None:
    await store.reserve(account, "a", [Draw(SLOTS, 3)])
    forced = [Draw(SLOTS, 1), Draw(BUDGET, 5)]  # of which it is not known what was spent
    assert (await store.reserve(account, "b", forced, forced=True)).status != "refused"
    assert await used(store, account, SLOTS) == [4]
    await store.seed(account, BUDGET.counter, 10)
    assert await used(store, account, BUDGET) == [15]


async def test_a_budget_begins_with_what_was_spent(store: Store, account: str) -> None:
    draws = [Draw(REQUESTS, 1), Draw(BUDGET, 1)]
    outcome = await store.reserve(account, "a", draws)
    assert (outcome.status, list(outcome.unseeded)) == ("unseeded", [BUDGET])
    assert await used(store, account, REQUESTS) == [0]
    await store.seed(account, BUDGET.counter, BUDGET.size - 1)
    await store.seed(account, BUDGET.counter, 0)  # too late
    assert (await store.reserve(account, "a", draws)).status == "granted"
    assert (await store.reserve(account, "b", draws)).status == "refused"


async def test_accounts_have_nothing_in_common(store: Store, account: str) -> None:
    await store.reserve(account, "a", [Draw(SLOTS, 3)])
    assert (await store.reserve(f"{account}-other", "b", [Draw(SLOTS, 3)])).status == "granted"


async def test_a_limit_that_is_raised_holds_at_once(store: Store, account: str) -> None:
    await store.reserve(account, "a", [Draw(limit("rate", 10), 10)])
    outcome = await store.reserve(account, "b", [Draw(limit("rate", 1000), 900)])
    assert outcome.status == "granted"


async def test_large_numbers_are_exact(store: Store, account: str) -> None:
    huge = limit("budget", 2**53 - 1)
    await store.seed(account, huge.counter, 2**53 - 11)
    assert (await store.reserve(account, "a", [Draw(huge, 11)])).status == "refused"
    assert (await store.reserve(account, "b", [Draw(huge, 10)])).status == "granted"
    await store.settle(account, "b", [Settlement(huge, 10, 9)])
    assert await used(store, account, huge) == [2**53 - 2]


async def test_a_thousand_at_once_never_pass_a_budget_by_a_nano_unit(
    store: Store, account: str
) -> None:
    """Each may cost 0.013 and costs what it costs."""
    most, chance = 13_000_001, random.Random(7)
    await store.seed(account, BUDGET.counter, 0)
    spent, held, passed = 0, 0, 0

    async def ask(number: int) -> None:
        nonlocal spent, held, passed
        outcome = await store.reserve(account, str(number), [Draw(BUDGET, most)])
        if outcome.status == "refused":
            return
        passed += 1
        held += most
        assert spent + held <= BUDGET.size
        assert outcome.standings[0].level.used <= BUDGET.size
        await asyncio.sleep(chance.random() / 100)
        cost = chance.randint(0, most)
        held -= most
        spent += cost
        await store.settle(account, str(number), [Settlement(BUDGET, most, cost)])

    await asyncio.gather(*map(ask, range(1000)))
    assert passed >= BUDGET.size // most
    assert await used(store, account, BUDGET) == [spent]
    assert spent <= BUDGET.size


async def test_a_thousand_at_once_that_cost_all_they_may(store: Store, account: str) -> None:
    await store.seed(account, BUDGET.counter, 0)
    price = 7_000_003
    outcomes = await asyncio.gather(
        *(store.reserve(account, str(n), [Draw(BUDGET, price)]) for n in range(1000))
    )
    passed = sum(outcome.status == "granted" for outcome in outcomes)
    assert passed == BUDGET.size // price
    assert await used(store, account, BUDGET) == [passed * price]


async def test_ten_at_once_never_overdraw_a_hundred_tokens(store: Store, account: str) -> None:
    draw = [Draw(TOKENS, 30)]
    outcomes = await asyncio.gather(*(store.reserve(account, str(n), draw) for n in range(10)))
    granted = [outcome for outcome in outcomes if outcome.status == "granted"]
    assert len(granted) == 3
    assert all(outcome.standings[0].level.used <= 100 * MINUTE for outcome in granted)


async def test_after_ten_thousand_random_aborts_every_counter_is_at_zero(
    store: Store, account: str
) -> None:
    """Reservations are settled, settled again, never granted or cancelled in mid-call."""
    chance, numbers = random.Random(11), count()
    large = [
        limit("rate", 10**9),
        limit("rate", 10**9, "output_tokens_per_minute"),
        limit("slots", 50),
        BUDGET,
    ]
    await store.seed(account, BUDGET.counter, 0)

    async def ask_and_leave() -> None:
        id = str(next(numbers))
        draws = [Draw(each, 1) for each in large]
        if (await store.reserve(account, id, draws)).status != "granted":
            return
        if chance.random() < 0.5:
            await asyncio.sleep(0)
        for _ in range(chance.choice([1, 1, 2])):
            await store.settle(account, id, unused(*large))

    async def visitor() -> None:
        while next(numbers) < 20_000:  # each request takes a number too
            await ask_and_leave()

    await asyncio.gather(*(visitor() for _ in range(64)))
    assert await used(store, account, *large) == [0, 0, 0, 0]


@pytest.mark.parametrize("order", [ALL, ALL[::-1]], ids=["forward", "backward"])
async def test_the_order_of_draws_means_nothing(
    store: Store, account: str, order: Sequence[Limit]
) -> None:
    await store.seed(account, BUDGET.counter, 0)
    assert (await store.reserve(account, "a", [Draw(each, 3) for each in order])).status == (
        "granted"
    )
    assert (await store.reserve(account, "b", [Draw(each, 1) for each in order])).status == (
        "refused"
    )
    await store.settle(account, "a", unused(*order, drawn=3))
    assert await used(store, account, *ALL) == [0, 0, 0, 0]
