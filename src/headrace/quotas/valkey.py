"""Counters in Valkey (or Redis), of a service that has many edges."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Literal

from headrace.extras import how_to_install
from headrace.quotas.errors import StoreUnavailable
from headrace.quotas.limit import Draw, Level, Limit
from headrace.quotas.scripts import read_script
from headrace.quotas.store import Outcome, Settlement, outcome_of

LEASE = 15.0
"""Seconds after which what an edge holds is freed if the edge does not renew its lease."""

CONNECTIONS = 32
"""At most; a call waits for one."""

PREFIX = "headrace"

Manner = Literal["first", "again", "void"]


class ValkeyStore:
    """`store.Store` by scripts. Everything raises StoreUnavailable when the server cannot be
    reached or does not do it; whether it was done is then not known.

    edge: this process. Its reservations are freed when it was not heard of for `lease` seconds.
    """

    def __init__(self, url: str, edge: str, *, lease: float = LEASE) -> None:
        try:
            from valkey.asyncio import BlockingConnectionPool, Valkey
        except ModuleNotFoundError as error:
            raise StoreUnavailable(
                f"Valkey needs the module {error.name}: {how_to_install('valkey')}"
            ) from error
        pool = BlockingConnectionPool.from_url(url, max_connections=CONNECTIONS, timeout=None)
        self._client = Valkey.from_pool(pool)
        self._edge = edge
        self._lease = str(int(lease * 1000))
        names = ("reserve", "settle", "seed", "renew", "edges")
        self._scripts = {name: self._client.register_script(read_script(name)) for name in names}

    async def reserve(
        self, account: str, id: str, draws: Sequence[Draw], *, forced: bool = False
    ) -> Outcome:
        arguments: list[str | int] = [self._edge, self._lease, id, "forced" if forced else ""]
        for draw in draws:
            limit = draw.limit
            arguments += (limit.kind, limit.counter, draw.amount, limit.size, limit.rate)
        status, *numbers = await self._run("reserve", account, *arguments)
        if status == b"void":
            raise StoreUnavailable("it was given up while it was on its way")
        pairs = zip(numbers[::2], numbers[1::2], strict=True)
        levels = [None if used is None else Level(used, held) for used, held in pairs]
        return outcome_of(draws, levels, "refused" if status == b"refused" else "granted")

    async def settle(
        self,
        account: str,
        id: str,
        settlements: Sequence[Settlement],
        *,
        manner: Manner = "first",
        moment: int | None = None,
    ) -> None:
        """manner: "again" where it may have been done before; "void" where it is not known whether
        the reservation was granted: if not it will not be any more. moment: when it ended, in
        unix milliseconds."""
        ended = time.time_ns() // 1_000_000 if moment is None else moment
        arguments: list[str | int] = [self._edge, id, manner, ended]
        for each in settlements:
            limit = each.limit
            arguments += (limit.kind, limit.counter, limit.rate, each.drawn, each.used)
        await self._run("settle", account, *arguments)

    async def seed(self, account: str, counter: str, spent: int) -> None:
        await self._run("seed", account, counter, spent)

    async def look(self, account: str, limits: Sequence[Limit]) -> Outcome:
        return await self.reserve(account, "", [Draw(limit, 0) for limit in limits])

    async def renew(self, account: str) -> int:
        """Keep what this edge holds; how many of its reservations are known."""
        known: int = await self._run("renew", account, self._edge, self._lease)
        return known

    async def be_there(self) -> tuple[int, bool]:
        """Be counted among the edges that are there: how many those are, and whether this one was
        known."""
        count, known = await self._run("edges", "edges", self._edge, self._lease)
        return count, known == 1

    async def leave(self) -> None:
        """Be counted no more."""
        await self._run("edges", "edges", self._edge, 0)

    async def close(self) -> None:
        await self._client.aclose()

    async def _run(self, script: str, account: str, *arguments: str | int) -> Any:
        from valkey.exceptions import ValkeyError

        try:
            return await self._scripts[script](keys=[f"{PREFIX}:{{{account}}}"], args=arguments)
        except (ValkeyError, OSError) as error:
            raise StoreUnavailable(str(error)) from error
