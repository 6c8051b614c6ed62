"""Word of changes to tenants, keys, names and prices, for those who remember them."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Sequence

import structlog

from headrace.access.revision import CHANNEL, Change, changes_since
from headrace.store.database import Database
from headrace.store.errors import DatabaseUnavailable

POLL_SECONDS = 0.5
FIRST_DELAY, LONGEST_DELAY = 0.05, 5.0

Hear = Callable[[Sequence[Change]], None]

log = structlog.get_logger("headrace.access")


class Changes:
    """Calls who subscribed, between `start` and `stop`, after every change by whatever process.

    It reads on a thread of its own, so word of a change waits for no other use of the database.

    What this process changed, and on PostgreSQL what any did, is told as soon as it is committed.
    Besides it looks twice a second, which is how a change reaches another process on SQLite, and
    on PostgreSQL one that hears no notices. While the database is out of reach nothing is told.
    """

    def __init__(self, database: Database, *, poll_seconds: float = POLL_SECONDS) -> None:
        self._database = database
        self._lane = database.lane("changes", threads=1)
        self._refreshing = asyncio.Lock()
        self._poll_seconds = poll_seconds
        self._subscribers: list[Hear] = []
        self._told = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._cleanup = contextlib.ExitStack()
        self.revision = -1
        """The number of changes that subscribers have heard of."""

    def subscribe(self, hear: Hear) -> None:
        """Call `hear` with what changed after every change, on the event loop."""
        self._subscribers.append(hear)

    async def start(self) -> None:
        """Begin to watch. Raises DatabaseUnavailable."""
        loop = asyncio.get_running_loop()
        told = self._database.listening(CHANNEL, lambda: loop.call_soon_threadsafe(self._told.set))
        self._cleanup.enter_context(told)
        await self.refresh()
        self._tasks.append(asyncio.create_task(self._watch()))
        if self._database.dialect == "postgresql":
            self._tasks.append(asyncio.create_task(self._listen()))

    async def stop(self) -> None:
        self._cleanup.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def refresh(self) -> None:
        """Tell subscribers now if there was a change since the last call.

        Raises DatabaseUnavailable.
        """
        async with self._refreshing:
            known = self.revision
            found, changes = await self._lane.run(lambda db: changes_since(db, known))
            if changes:
                self.revision = found
                for hear in self._subscribers:
                    hear(changes)

    async def _watch(self) -> None:
        reachable = True
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._poll_seconds):
                    await self._told.wait()
            self._told.clear()
            try:
                await self.refresh()
                reachable = True
            except DatabaseUnavailable as error:
                if reachable:
                    log.warning("changes_delayed", reason=str(error))
                reachable = False

    async def _listen(self) -> None:
        delay = FIRST_DELAY
        while True:
            try:
                async for _ in self._database.notices(CHANNEL):
                    delay = FIRST_DELAY
                    self._told.set()
            except DatabaseUnavailable as error:
                if delay == FIRST_DELAY:
                    log.warning("notices_lost", reason=str(error))
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))
            delay = min(2 * delay, LONGEST_DELAY)
