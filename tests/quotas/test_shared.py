"""An edge whose shared counters stall, die, lose their memory and come back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from headrace.quotas.errors import StoreUnavailable
from headrace.quotas.limit import Draw, Level, Limit, Standing
from headrace.quotas.shared import CALL_SECONDS, FAILURES, RENEW_AFTER, SharedStore
from headrace.quotas.store import Outcome, Settlement
from headrace.quotas.tally import QuotaTally
from headrace.quotas.valkey import ValkeyStore
from tests.servers.valkey import ValkeyServer

from .limits import limit, unused
from .test_store import used

SLOTS, BUDGET, TOKENS = limit("slots", 4), limit("budget", 100), limit("rate", 100)


@dataclass
class Edge:
    """One of several, and what it told of itself."""

    store: SharedStore
    tally: QuotaTally
    passed: list[str] = field(default_factory=list)

    async def ask(self, id: str, *draws: Draw) -> bool:
        outcome = await self.store.reserve("acme", id, draws)
        if outcome.status == "unseeded":
            for each in outcome.unseeded:
                await self.store.seed("acme", each.counter, 0)
            outcome = await self.store.reserve("acme", id, draws)
        if outcome.status == "granted":
            self.passed.append(id)
        return outcome.status == "granted"

    async def end(self, id: str, *limits: Limit, spent: int = 0) -> None:
        ends = [Settlement(each, 1, spent if each.kind == "budget" else 0) for each in limits]
        await self.store.settle("acme", id, ends)


@asynccontextmanager
async def edge(server: ValkeyServer, name: str, **options: float) -> AsyncIterator[Edge]:
    tally = QuotaTally()
    store = SharedStore(ValkeyStore(server.url, name), tally, **options)
    await store.start()
    try:
        yield Edge(store, tally)
    finally:
        await store.stop()


@pytest.fixture
async def edges(own_valkey: ValkeyServer) -> AsyncIterator[tuple[Edge, Edge]]:
    async with edge(own_valkey, "edge-1") as one, edge(own_valkey, "edge-2") as two:
        one.tally.edges = two.tally.edges = 2
        yield one, two


@pytest.fixture
async def patient(own_valkey: ValkeyServer) -> AsyncIterator[Edge]:
    """Whose calls are given up by their callers alone."""
    async with edge(own_valkey, "edge-1", call_seconds=60) as one:
        yield one


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def eventually(call: Callable[[], Awaitable[None]]) -> None:
    """Connections to a server that is gone fail first."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await call()
            except StoreUnavailable:
                await asyncio.sleep(0.01)


async def counted(server: ValkeyServer, *limits: Limit) -> list[int]:
    """What the shared counters say."""
    store = ValkeyStore(server.url, "observer")
    numbers = await used(store, "acme", *limits)
    await store.close()
    return numbers


Edges = tuple[Edge, Edge]


async def test_no_request_waits_long_for_counters_that_stall(
    edges: Edges, own_valkey: ValkeyServer
) -> None:
    own_valkey.pause()
    tally, waited, waits = edges[0].tally, 0, []
    for number in range(20):
        waited += not tally.alone  # for as long as a call may take
        begun = time.monotonic()
        await edges[0].ask(str(number), Draw(TOKENS, 1))
        waits.append(time.monotonic() - begun)
    assert tally.alone
    own_valkey.resume()
    assert 1 <= waited <= FAILURES
    assert max(waits) < 10 * CALL_SECONDS  # on a machine that others keep busy
    assert tally.outages == 1
    assert tally.decided_alone == 20


async def test_each_edge_alone_has_its_share(edges: Edges, own_valkey: ValkeyServer) -> None:
    own_valkey.kill()
    for number in range(8):
        for each in edges:
            await each.ask(f"{each.tally is edges[0].tally}{number}", Draw(SLOTS, 1))
    assert [len(each.passed) for each in edges] == [2, 2]
    begun = time.monotonic()
    for number in range(70):
        for each in edges:
            await each.ask(f"t{number}", Draw(TOKENS, 1))
    most = 51 + (time.monotonic() - begun) * 50 / 60  # they fill meanwhile
    assert all(50 <= len(each.passed) - 2 <= most for each in edges)
    own_valkey.start()


async def test_a_share_of_nothing_is_one(edges: Edges, own_valkey: ValkeyServer) -> None:
    own_valkey.kill()
    single = limit("slots", 1)
    assert [await edges[0].ask(id, Draw(single, 1)) for id in "ab"] == [True, False]
    own_valkey.start()


async def test_what_is_larger_than_the_share_passes_and_leaves_a_debt(
    edges: Edges, own_valkey: ValkeyServer
) -> None:
    own_valkey.kill()
    assert await edges[0].ask("a", Draw(TOKENS, 90))
    assert not await edges[0].ask("b", Draw(TOKENS, 1))
    own_valkey.start()


async def test_of_a_budget_it_has_a_share_of_what_was_left(
    edges: Edges, own_valkey: ValkeyServer
) -> None:
    assert await edges[0].ask("before", Draw(BUDGET, 20))
    own_valkey.kill()
    asked = [f"{number}" for number in range(12)]
    for id in asked:
        await edges[0].ask(id, Draw(BUDGET, 10))
    # Half of 100, of which 20 are held already.
    assert edges[0].passed == ["before", "0", "1", "2"]
    own_valkey.start()


async def test_when_they_are_back_they_are_told_what_they_missed(
    edges: Edges, own_valkey: ValkeyServer
) -> None:
    one, _ = edges
    assert await one.ask("before", Draw(SLOTS, 1), Draw(BUDGET, 1))
    own_valkey.pause()
    assert await one.ask("alone", Draw(SLOTS, 1), Draw(BUDGET, 1))
    await one.end("before", SLOTS, BUDGET, spent=7)
    for number in range(3):
        await one.ask(f"full{number}", Draw(SLOTS, 1))
    own_valkey.resume()
    await until(lambda: not one.tally.alone)
    live = len(one.passed) - 1
    assert await counted(own_valkey, SLOTS, BUDGET) == [live, 7 + 1]
    for id in one.passed[1:]:
        await one.end(id, SLOTS, *([BUDGET] if id == "alone" else []), spent=2)
    assert await counted(own_valkey, SLOTS, BUDGET) == [0, 9]


async def test_counters_that_lost_their_memory_learn_what_is_on_its_way(
    edges: Edges, own_valkey: ValkeyServer
) -> None:
    one, two = edges
    for each, id in ((one, "a"), (two, "b")):
        assert await each.ask(id, Draw(SLOTS, 1), Draw(BUDGET, 5))
    own_valkey.kill()
    assert await one.ask("c", Draw(SLOTS, 1))
    own_valkey.start()
    for each in edges:
        await eventually(each.store.refresh)
    assert await counted(own_valkey, SLOTS) == [3]
    for each, id in ((one, "a"), (two, "b"), (one, "c")):
        await each.end(id, SLOTS)
    assert await counted(own_valkey, SLOTS) == [0]


async def test_a_caller_that_gives_up_while_it_reserves_holds_nothing(
    patient: Edge, own_valkey: ValkeyServer
) -> None:
    own_valkey.pause()
    asking = asyncio.create_task(patient.ask("a", Draw(SLOTS, 1)))
    await asyncio.sleep(0.01)
    asking.cancel()
    await asyncio.wait({asking})
    own_valkey.resume()
    await until(lambda: not patient.store._backlog)
    assert await counted(own_valkey, SLOTS) == [0]


async def test_a_caller_that_gives_up_while_it_settles_settles(
    patient: Edge, own_valkey: ValkeyServer
) -> None:
    await patient.ask("a", Draw(SLOTS, 1))
    own_valkey.pause()
    ending = asyncio.create_task(patient.store.settle("acme", "a", unused(SLOTS)))
    await asyncio.sleep(0.01)
    ending.cancel()
    await asyncio.wait({ending})
    own_valkey.resume()
    await until(lambda: not patient.store._ending and not patient.store._backlog)
    assert await counted(own_valkey, SLOTS) == [0]


async def test_it_may_begin_alone(own_valkey: ValkeyServer) -> None:
    own_valkey.kill()
    async with edge(own_valkey, "edge-1") as one:
        assert one.tally.alone
        assert await one.ask("a", Draw(SLOTS, 1))
        own_valkey.start()
        await until(lambda: not one.tally.alone)
        assert await counted(own_valkey, SLOTS) == [1]


class CountingCounters:
    """Shared counters that grant everything and count what they are asked."""

    def __init__(self) -> None:
        self.renewals: list[str] = []

    async def reserve(
        self, account: str, id: str, draws: Sequence[Draw], *, forced: bool = False
    ) -> Outcome:
        return Outcome("granted", [Standing(d.limit, d.amount, Level(0, 0)) for d in draws])

    async def settle(self, *arguments: object, **options: object) -> None:
        pass

    async def renew(self, account: str) -> int:
        self.renewals.append(account)
        return 1

    async def be_there(self) -> tuple[int, bool]:
        return 1, True


async def test_a_renewal_asks_for_what_is_due_and_for_nothing_else() -> None:
    """3,000 accounts with a reservation each; five of them old enough to be renewed."""
    moment = 0.0
    counters = CountingCounters()
    store = SharedStore(counters, QuotaTally(), monotonic=lambda: moment)  # type: ignore[arg-type]
    for number in range(3000):
        moment = 0.0 if number < 5 else 5.0
        await store.reserve(f"account-{number}", str(number), [Draw(SLOTS, 1)])
    moment = RENEW_AFTER
    await store.refresh()
    assert counters.renewals == [f"account-{number}" for number in range(5)]
    await store.refresh()
    assert len(counters.renewals) == 5
    moment = 3 * RENEW_AFTER
    begun = time.process_time()
    await store.refresh()
    assert len(counters.renewals) == 3005
    # 0.1 s; with a walk through all for each it took 3 s.
    assert time.process_time() - begun < 1.5
