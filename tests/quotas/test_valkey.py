"""Counters in Valkey: what only many edges need."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from headrace.quotas.errors import StoreUnavailable
from headrace.quotas.limit import Draw
from headrace.quotas.store import Settlement
from headrace.quotas.valkey import ValkeyStore
from tests.servers.valkey import ValkeyServer

from .limits import limit, unused
from .test_store import used

SLOTS, BUDGET, TOKENS = limit("slots", 4), limit("budget", 100), limit("rate", 600)
DRAWS = [Draw(SLOTS, 1), Draw(BUDGET, 40), Draw(TOKENS, 5)]


@pytest.fixture
async def edges(valkey: ValkeyServer) -> AsyncIterator[tuple[ValkeyStore, ValkeyStore]]:
    both = tuple(ValkeyStore(valkey.url, edge) for edge in ("edge-1", "edge-2"))
    yield both  # type: ignore[misc]
    for edge in both:
        await edge.close()


@pytest.fixture
async def dying(valkey: ValkeyServer) -> AsyncIterator[ValkeyStore]:
    """The first edge as it would be if it died some time after its next call."""
    edge = ValkeyStore(valkey.url, "edge-1", lease=0.1)
    yield edge
    await edge.close()


Edges = tuple[ValkeyStore, ValkeyStore]


async def test_two_edges_hold_one_limit(edges: Edges, account: str) -> None:
    tokens = limit("rate", 100)
    outcomes = await asyncio.gather(
        *(edges[n % 2].reserve(account, str(n), [Draw(tokens, 7)]) for n in range(40))
    )
    assert sum(outcome.status == "granted" for outcome in outcomes) == 14


async def test_what_a_dead_edge_holds_comes_back(
    edges: Edges, dying: ValkeyStore, account: str
) -> None:
    dead, alive = edges
    await alive.seed(account, BUDGET.counter, 0)
    await dead.reserve(account, "a", DRAWS)
    await dead.reserve(account, "b", DRAWS)
    assert (await alive.reserve(account, "c", DRAWS)).status == "refused"
    assert await dying.renew(account) == 2
    await asyncio.sleep(0.15)
    assert await used(alive, account, SLOTS, BUDGET) == [0, 0]
    assert (await alive.reserve(account, "c", DRAWS)).status == "granted"


async def test_what_a_live_edge_holds_stays(edges: Edges, dying: ValkeyStore, account: str) -> None:
    await edges[0].seed(account, BUDGET.counter, 0)
    await dying.reserve(account, "a", DRAWS)
    assert await edges[0].renew(account) == 1
    await asyncio.sleep(0.15)
    assert await used(edges[1], account, SLOTS, BUDGET) == [1, 40]


async def test_an_edge_taken_for_dead_has_its_own_again_when_it_comes_back(
    edges: Edges, dying: ValkeyStore, account: str
) -> None:
    await edges[0].seed(account, BUDGET.counter, 0)
    await dying.reserve(account, "a", DRAWS)
    await asyncio.sleep(0.15)
    assert await used(edges[1], account, SLOTS, BUDGET) == [0, 0]
    assert await edges[0].renew(account) == 1
    assert await used(edges[1], account, SLOTS, BUDGET) == [1, 40]


async def test_and_pays_for_what_ended_meanwhile(
    edges: Edges, dying: ValkeyStore, account: str
) -> None:
    await edges[0].seed(account, BUDGET.counter, 0)
    await dying.reserve(account, "a", DRAWS)
    await asyncio.sleep(0.15)
    assert await used(edges[1], account, SLOTS, BUDGET) == [0, 0]
    end = [Settlement(SLOTS, 1, 0), Settlement(BUDGET, 40, 33), Settlement(TOKENS, 5, 5)]
    for manner in ("first", "again", "again"):
        await edges[0].settle(account, "a", end, manner=manner)  # type: ignore[arg-type]
        assert await used(edges[1], account, SLOTS, BUDGET) == [0, 33]


async def test_what_these_counters_never_saw_is_paid_once(edges: Edges, account: str) -> None:
    """Before they were seeded the books knew it, after it they did not."""
    end = [Settlement(BUDGET, 40, 33)]
    await edges[0].settle(account, "before", end)
    await edges[0].seed(account, BUDGET.counter, 33)
    await edges[0].settle(account, "before", end, moment=1)
    assert await used(edges[0], account, BUDGET) == [33]
    await edges[0].settle(account, "after", end, moment=10**13)
    assert await used(edges[0], account, BUDGET) == [66]


async def test_what_was_given_up_is_not_reserved_later(edges: Edges, account: str) -> None:
    await edges[0].settle(account, "a", unused(SLOTS), manner="void")
    with pytest.raises(StoreUnavailable):
        await edges[0].reserve(account, "a", [Draw(SLOTS, 1)])
    await edges[0].reserve(account, "b", [Draw(SLOTS, 1)])
    await edges[0].settle(account, "b", unused(SLOTS), manner="void")
    assert await used(edges[0], account, SLOTS) == [0]


async def test_edges_are_counted_while_they_are_there(edges: Edges, dying: ValkeyStore) -> None:
    assert await edges[0].be_there() == (1, False)
    assert await edges[1].be_there() == (2, False)
    await edges[0].leave()
    assert await edges[1].be_there() == (1, True)
    await dying.be_there()
    await asyncio.sleep(0.15)
    assert await edges[1].be_there() == (1, True)
    await edges[1].leave()


async def test_nobody_there_is_unavailable() -> None:
    store = ValkeyStore("unix:///nowhere/at/all.sock", "edge")
    with pytest.raises(StoreUnavailable):
        await store.be_there()
    await store.close()
