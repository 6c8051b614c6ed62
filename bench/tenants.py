"""What a request costs where many tenants are known: processor time of one turn of each table.

    python bench/tenants.py
    python bench/tenants.py dispatch       rows with that word alone

Each row of the table measures one kind of work with 10 to 100,000 known tenants. `ROWS` lists the
rows. A row is a function: it creates the tenants and returns a function that does the work of one
request. The first row of dispatch is a reference: its time shows how fast the processor runs at
that moment.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import heapq
import itertools
import math
import random
import time
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from uuid import UUID

from headrace.access.authenticator import Authenticator
from headrace.access.changes import Changes
from headrace.access.key import Key
from headrace.dispatch.arbiter import Arbiter
from headrace.dispatch.entry import Entry
from headrace.dispatch.policy import adjusted, usual_policies
from headrace.edge.server import YOUNG_OBJECTS
from headrace.quotas.limit import Draw, Limit
from headrace.quotas.memory import MemoryStore
from headrace.quotas.store import Settlement
from headrace.quotas.underway import Live, Underway
from headrace.store import schema
from headrace.store.database import Database
from headrace.store.url import database_url

KNOWN = (10, 1_000, 10_000, 100_000)
WAITING = 1_000
PLACES = 64
STEP = 0.01  # seconds between two requests, of the clock that is played

T = TypeVar("T")

Work = Callable[[], object]
Row = Callable[[int], Work]
"""Creates that many known tenants. Returns the work of one request."""


class Dispatch:
    """The real arbiter under a simulated load. For each request it gets all calls that the service
    makes: whether the request may wait, before the prompt is tokenised; the request joins the
    queue; it gets a place; its prompt is computed; it ends. After each of the last four calls the
    arbiter is asked for the next request. The time includes the construction of the two entries
    of a request. Another row measures the tokens between the first one and the end.

    waiting: number of requests that wait all the time. They belong to different tenants if there
    are enough tenants. Answers have more tokens than the arbiter expects. So the service rate is
    higher than the arrival rate, and no request is refused.
    """

    PROMPT, ANSWER = 300, 80

    def __init__(self, known: int, waiting: int) -> None:
        usual = usual_policies(2 * waiting + PLACES)
        endless = {"deadline": 1e9, "age": 1e9}
        self._arbiter = Arbiter(adjusted(usual, {"default": endless}))
        self._arbiter.resize(PLACES, 1_000_000, 4 * 256)
        self._now = 0.0
        self._running: deque[Entry] = deque()
        self._most = PLACES if waiting else PLACES - 1
        tenants = [UUID(int=number + 1) for number in range(known)]
        self._tenants = itertools.cycle([(id, (id.bytes, id.bytes[::-1])) for id in tenants])
        for _ in range(max(known, 4 * PLACES)):
            self.request()
        while self._arbiter.waiting < waiting:
            for _ in range(4):
                self.request()
            self._come()

    def request(self) -> None:
        """The one that has run longest ends, and another comes."""
        self._now += STEP
        if len(self._running) == self._most:
            ended = self._running.popleft()
            self._arbiter.note(ended, self.ANSWER - 1, self._now)
            self._arbiter.end(ended, self._now, cached=0, answered=True)
            self._advance()
        self._come()

    def token(self) -> None:
        """One more for the youngest that runs."""
        self._now += STEP / PLACES
        self._arbiter.note(self._running[-1], 1, self._now)

    def question(self) -> None:
        """Of one whose deadline is so near that the turns before it have to be estimated."""
        tenant, _ = next(self._tenants)
        self._arbiter.ask(self._question(tenant, self._now + 1), self._now)

    def _come(self) -> None:
        tenant, prefixes = next(self._tenants)
        shed = self._arbiter.ask(self._question(tenant, math.inf), self._now)
        newcomer = Entry(
            tenant=tenant,
            weight=1,
            service_class="default",
            long=False,
            prompt=self.PROMPT,
            max_tokens=20,
            arrived=self._now,
            prefixes=prefixes,
        )
        if shed := shed or self._arbiter.join(newcomer, self._now):
            raise AssertionError(shed.message)
        self._advance()

    def _question(self, tenant: UUID, asked: float) -> Entry:
        return Entry(
            tenant=tenant,
            weight=1,
            service_class="default",
            long=False,
            prompt=1,
            max_tokens=1,
            arrived=self._now,
            asked=asked,
        )

    def _advance(self) -> None:
        for placed in self._arbiter.advance(self._now).placed:
            self._running.append(placed)
            self._arbiter.note(placed, 1, self._now)
            self._advance()


def floor(known: int) -> Work:
    """A push and a pop of a heap of as many as wait in the other rows, whatever is known."""
    heap = [(float(number), number) for number in range(WAITING)]

    def request() -> None:
        number, serial = heapq.heappop(heap)
        heapq.heappush(heap, (number + WAITING, serial))

    return request


def dispatch(known: int) -> Work:
    return Dispatch(known, 0).request


def dispatch_with_waiting(known: int) -> Work:
    return Dispatch(known, WAITING).request


def question(known: int) -> Work:
    return Dispatch(known, WAITING).question


def token(known: int) -> Work:
    return Dispatch(known, WAITING).token


def now(call: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        call.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("it waited")


class Keys:
    """An authenticator on an SQLite file with a key of each known tenant. asked: how many of them
    are asked for, in turn. capacity: how many of them it remembers."""

    PEPPER = b"p" * 32

    def __init__(self, known: int, asked: int, capacity: int) -> None:
        self._folder = TemporaryDirectory()
        self._database = Database.open(database_url(None, Path(self._folder.name)))
        self._fill(known)
        self._loop = asyncio.new_event_loop()
        self._authenticator = Authenticator(
            self._database, self.PEPPER, Changes(self._database), capacity=capacity
        )
        self._texts = itertools.cycle(Key(str(n), "s").text for n in range(min(known, asked)))
        weakref.finalize(self, self._folder.cleanup)

    def _fill(self, known: int) -> None:
        ids = [(UUID(int=n + 1), Key(str(n), "s")) for n in range(known)]
        limits = {"limits": "{}", "created_at": 1}
        owners = [{"id": id, "name": f"tenant-{key.id}", **limits} for id, key in ids]
        held = [{"id": key.id, "tenant_id": id, "scopes": "inference", **limits} for id, key in ids]
        digests = [
            {"key_id": key.id, "number": 1, "digest": key.digest(self.PEPPER), "created_at": 1}
            for _, key in ids
        ]
        with self._database.transaction(write=True) as connection:
            for table, rows in (
                (schema.tenants, owners),
                (schema.keys, held),
                (schema.key_secrets, digests),
            ):
                connection.execute(table.insert(), rows)

    def request(self) -> None:
        call = self._authenticator.authenticate(next(self._texts))
        self._loop.run_until_complete(call)


def keys_remembered(known: int) -> Work:
    keys = Keys(known, 10, 10_000)
    for _ in range(10):
        keys.request()
    return keys.request


def keys_looked_up(known: int) -> Work:
    return Keys(known, known, 1).request


LIMITS = tuple(
    Limit(
        kind=kind,
        unit=unit,
        name=name,
        subject="tenant",
        whose="acme",
        counter=name,
        size=1 << 40,
        rate=1 << 40,
        stated=1 << 40,
    )
    for name, kind, unit in (
        ("requests_per_minute", "rate", "request"),
        ("input_tokens_per_minute", "rate", "input_token"),
        ("concurrent_requests", "slots", "place"),
    )
)
DRAWS = [Draw(limit, 1) for limit in LIMITS]
ENDS = [Settlement(limit, 1, 1) for limit in LIMITS]


def quotas(known: int) -> Work:
    """Reserve and settle, of known tenants in turn, with three limits each."""
    milliseconds = itertools.count(step=10)
    store = MemoryStore(lambda: next(milliseconds))
    accounts = itertools.cycle(str(n) for n in range(known))
    ids = itertools.count()

    def request() -> None:
        account, id = next(accounts), str(next(ids))
        now(store.reserve(account, id, DRAWS))
        now(store.settle(account, id, ENDS))

    for _ in range(known):
        request()
    return request


def leases(known: int) -> Work:
    """What an edge with shared counters does to know which leases are due. Each known tenant had a
    request, PLACES of them still have one, and another comes and ends."""
    seconds = itertools.count(step=0.01)
    clock = [0.0]
    underway = Underway(6.0, lambda: clock[0])
    for n in range(known):
        underway.add(f"known-{n}", Live(str(n), (), shared=True))
        underway.pop(f"known-{n - PLACES}")
    ids = itertools.count()

    def request() -> None:
        clock[0] = next(seconds)
        id = f"busy-{next(ids)}"
        underway.add(id, Live("busy", (), shared=True))
        for account in underway.due(16):
            underway.renewed(account)
        underway.pop(id)

    return request


ROWS: dict[str, Row] = {
    "key, remembered": keys_remembered,
    "key, looked up": keys_looked_up,
    "quotas, reserve and settle": quotas,
    "quotas, leases of an edge": leases,
    "floor of dispatch": floor,
    "dispatch, nobody waits": dispatch,
    "dispatch, 1,000 wait": dispatch_with_waiting,
    "dispatch, a near deadline": question,
    "dispatch, a token": token,
}


def microseconds(work: Work, seconds: float) -> float:
    """Processor time of one call, where the least of ten measurements was disturbed least. The
    garbage collector is set as the service sets it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 50)
    work()
    rounds = 1
    while True:
        start = time.process_time()
        for _ in range(rounds):
            work()
        if time.process_time() - start > seconds / 20:
            break
        rounds *= 2
    taken = []
    for _ in range(10):
        start = time.process_time()
        for _ in range(rounds):
            work()
        taken.append((time.process_time() - start) / rounds)
    return 1e6 * min(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("word", nargs="?", default="", help="measure only rows with this word")
    parser.add_argument("--seconds", type=float, default=0.5, help="of measuring, about, a figure")
    args = parser.parse_args()
    random.seed(1)
    print("microseconds a request".ljust(32), *(f"{known:>9,}" for known in KNOWN), "known tenants")
    for name, row in ROWS.items():
        if args.word in name:
            figures = (microseconds(row(known), args.seconds) for known in KNOWN)
            print(name.ljust(32), *(f"{figure:9.1f}" for figure in figures), flush=True)


if __name__ == "__main__":
    main()
