"""Brings entries to the database, many in one transaction."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import structlog

from headrace.ledger.entries import Entry, write_entries
from headrace.ledger.errors import UnknownCharge
from headrace.store.database import Database
from headrace.store.errors import DatabaseUnavailable

BATCH = 500
FIRST_DELAY, LONGEST_DELAY = 0.05, 5.0

log = structlog.get_logger("headrace.ledger")


@dataclass(frozen=True, slots=True)
class Pending:
    """An entry that is not yet in the database; `written` is resolved when it is."""

    entry: Entry
    written: asyncio.Future[None]


class Writer:
    """Group commit: what arrives during one transaction goes into the next, so an entry waits
    for two transactions at most, however many there are.

    While the database is locked or down the entries stay here, in order, and it tries again.
    alarm_at: number of waiting entries that is reported as a fault.
    """

    def __init__(self, database: Database, *, alarm_at: int) -> None:
        self._database = database
        self._alarm_at = alarm_at
        self._pending: list[Pending] = []
        self._arrived = asyncio.Event()
        self._stopping = False
        self._running: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """Entries that are not yet written."""
        return len(self._pending)

    def put(self, entry: Entry) -> asyncio.Future[None]:
        """Queue an entry. The future is resolved when it is committed, or fails if it can never
        be; to cancel it changes nothing for the entry."""
        pending = Pending(entry, asyncio.get_running_loop().create_future())
        if self._running is None or self._running.done():
            _give_up(pending, "the ledger does not run")
            return pending.written
        self._pending.append(pending)
        self._arrived.set()
        if len(self._pending) == self._alarm_at:
            log.error("ledger_backlog", waiting=len(self._pending))
        return pending.written

    def start(self) -> None:
        self._running = asyncio.create_task(self._run())

    async def stop(self, timeout: float) -> None:
        """Write what waits, in at most so many seconds; the rest goes to the log."""
        self._stopping = True
        self._arrived.set()
        if self._running is not None:
            await asyncio.wait({self._running}, timeout=timeout)
            self._running.cancel()
        for pending in self._pending:
            _give_up(pending, "the service stopped before the ledger could write")
        self._pending.clear()

    async def _run(self) -> None:
        while self._pending or not self._stopping:
            await self._arrived.wait()
            self._arrived.clear()
            while self._pending:
                batch = self._pending[:BATCH]
                await self._write_until_done(batch)
                del self._pending[: len(batch)]

    async def _write_until_done(self, batch: Sequence[Pending]) -> None:
        delay = FIRST_DELAY
        while True:
            try:
                return await self._write(batch)
            except DatabaseUnavailable as error:
                log.warning("ledger_waits", reason=str(error), waiting=len(self._pending))
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))
            delay = min(2 * delay, LONGEST_DELAY)

    async def _write(self, batch: Sequence[Pending]) -> None:
        entries = [pending.entry for pending in batch]
        try:
            unknown = await self._database.run(
                lambda connection: write_entries(connection, entries), write=True
            )
        except DatabaseUnavailable:
            raise
        except Exception as error:
            await self._isolate(batch, error)
            return
        for pending in batch:
            if pending.entry.charge.id in unknown:
                log.error("charge_unknown", **_told(pending.entry))
                _fail(pending, UnknownCharge(f"charge {pending.entry.charge.id} was not opened"))
            elif not pending.written.done():
                pending.written.set_result(None)

    async def _isolate(self, batch: Sequence[Pending], error: Exception) -> None:
        """One of these entries is not acceptable to the database: let it fail alone."""
        if len(batch) > 1:
            for pending in batch:
                await self._write_until_done([pending])
            return
        log.critical("charge_not_written", **_told(batch[0].entry), exc_info=error)
        _fail(batch[0], error)


def _give_up(pending: Pending, reason: str) -> None:
    log.critical("charge_not_written", **_told(pending.entry))
    _fail(pending, DatabaseUnavailable(reason))


def _fail(pending: Pending, error: Exception) -> None:
    if not pending.written.done():
        pending.written.set_exception(error)


def _told(entry: Entry) -> dict[str, object]:
    """All of an entry, so that it can be written by hand."""
    values = {**asdict(entry.charge), "edge": entry.edge, "moment": entry.moment}
    return {name: v if isinstance(v, int) else str(v) for name, v in values.items()}
