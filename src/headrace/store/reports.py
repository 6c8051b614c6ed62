"""Long reads of the database, bounded in number and in time."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import Connection

from headrace.store.database import Database
from headrace.store.errors import DatabaseUnavailable, ReportTooLong, TooManyReports

T = TypeVar("T")

AT_ONCE = 2
"""Reports that run at once, each on a thread of its own. Of one caller one runs at a time."""

MOST_WAITING = 8
"""Reports of one caller that may wait; more are refused."""

SECONDS = 60.0

AGAIN_SECONDS = 0.1
"""Until a report that goes on is interrupted again: it was between two statements."""


class Reports:
    """Runs reports on threads of their own, so that nothing else waits for them.

    seconds: the time that one may take once it runs.
    """

    def __init__(self, database: Database, *, seconds: float = SECONDS) -> None:
        self._database = database
        self._lane = database.lane("reports", AT_ONCE)
        self._seconds = seconds
        self._places = asyncio.Semaphore(AT_ONCE)
        self._turns: dict[str, asyncio.Lock] = {}
        self._asked: defaultdict[str, int] = defaultdict(int)

    async def run(self, whose: str, work: Callable[[Connection], T]) -> T:
        """`work` in a reading transaction. If the caller is cancelled it is ended.

        Raises:
            TooManyReports: MOST_WAITING of this caller wait already.
            ReportTooLong: it took longer than it may.
            DatabaseUnavailable
        """
        with self._counted(whose):
            async with self._turns[whose], self._places:
                return await self._run(work)

    @contextmanager
    def _counted(self, whose: str) -> Iterator[None]:
        if self._asked[whose] > MOST_WAITING:
            raise TooManyReports(f"{MOST_WAITING} reports of this key wait already")
        self._turns.setdefault(whose, asyncio.Lock())
        self._asked[whose] += 1
        try:
            yield
        finally:
            self._asked[whose] -= 1
            if not self._asked[whose]:
                del self._asked[whose], self._turns[whose]

    async def _run(self, work: Callable[[Connection], T]) -> T:
        running = _Work()

        def read(connection: Connection) -> T:
            with running.on(connection):
                return work(connection)

        reading = asyncio.ensure_future(self._lane.run(read))
        try:
            async with asyncio.timeout(self._seconds):
                return await asyncio.shield(reading)
        except TimeoutError:
            raise ReportTooLong(f"it took longer than {self._seconds:g} s") from None
        finally:
            if not reading.done():
                reading.add_done_callback(_ignore)
                await asyncio.to_thread(running.end)


class _Work:
    """What a report's thread does, which another thread may end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._driver: Any = None
        self._ended = False
        self._over = threading.Event()

    @contextmanager
    def on(self, connection: Connection) -> Iterator[None]:
        with self._lock:
            if self._ended:
                raise DatabaseUnavailable("the report was given up")
            self._driver = connection.connection.driver_connection
        try:
            yield
        finally:
            with self._lock:
                self._driver = None
            self._over.set()

    def end(self) -> None:
        """Return when it has ended. A driver interrupts the statement that it runs now and no
        later one, so this is repeated."""
        while self._interrupt():
            self._over.wait(AGAIN_SECONDS)

    def _interrupt(self) -> bool:
        """Whether there was anything to end."""
        with self._lock:
            self._ended = True
            if self._driver is None:
                return False
            # sqlite3's or psycopg's, both safe from another thread
            interrupt = getattr(self._driver, "interrupt", None) or self._driver.cancel
            interrupt()
            return True


def _ignore(reading: asyncio.Future[Any]) -> None:
    """Nobody waits for it any more."""
    if not reading.cancelled():
        reading.exception()
