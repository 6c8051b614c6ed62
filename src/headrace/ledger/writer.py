"""Brings entries to the database, many in one transaction."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from uuid import UUID

import structlog
from msgspec.structs import asdict

from headrace.ledger.entries import Entry, Journal
from headrace.ledger.errors import UnknownCharge
from headrace.store.database import Database
from headrace.store.errors import DatabaseUnavailable, reason

BATCH = 500
DELAY = 0.01
"""Seconds that an entry may wait for others, if nobody waits for it."""

FIRST_DELAY, LONGEST_DELAY = 0.05, 5.0
QUIET_SECONDS = 1.0
PROBE_SECONDS = 2.0
"""After so long without an entry it tries whether the database can be written."""

log = structlog.get_logger("headrace.ledger")


@dataclass(slots=True, eq=False)
class Pending:
    """An entry that is not yet in the database; `written` is resolved when it is."""

    entry: Entry
    written: asyncio.Future[None]


class Writer:
    """Group commit on a thread of its own: what arrives during one transaction goes into the
    next, so an entry waits for two transactions at most, however many there are. The opening of
    a short request goes with its closing, which halves what a lone one costs.

    While the database is locked, full, damaged or down the entries stay here, in order, and it
    tries again. Where nothing is to be written it tries whether something could be.
    alarm_at: number of waiting entries that is reported as a fault. clock: seconds that never step
    back. dice: spread the attempts of several processes.
    """

    def __init__(
        self,
        database: Database,
        *,
        alarm_at: int,
        clock: Callable[[], float] = time.monotonic,
        dice: random.Random | None = None,
    ) -> None:
        self._database = database
        self._alarm_at = alarm_at
        self._clock = clock
        self._dice = dice or random.Random()
        self._pending: dict[Pending, None] = {}
        self._queue: deque[Pending] = deque()
        self._bell: SimpleQueue[bool] = SimpleQueue()  # rings with whether it goes on
        self._ringing = False
        self._reminder: asyncio.TimerHandle | None = None
        self._accepting = self._stopping = False
        self._given_up = threading.Event()
        self._fault: DatabaseUnavailable | None = None
        self._failing_since = 0.0

    def __len__(self) -> int:
        """Entries that are not yet written."""
        return len(self._pending)

    @property
    def fault(self) -> DatabaseUnavailable | None:
        """Why the last attempt to write failed; None if it did not."""
        return self._fault

    @property
    def failing_seconds(self) -> float:
        """How long every attempt has failed."""
        return 0.0 if self._fault is None else self._clock() - self._failing_since

    @property
    def oldest(self) -> Entry | None:
        """Of those that are not yet written."""
        for pending in self._pending:
            return pending.entry
        return None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        self._accepting = True
        threading.Thread(target=self._run, name="ledger", daemon=True).start()

    def put(self, entry: Entry, *, soon: bool) -> asyncio.Future[None]:
        """Queue an entry. The future is resolved when it is committed, or fails if it can never
        be; to cancel it changes nothing for the entry. soon: at once, else with the next that is
        or, if there is none, after DELAY."""
        if not self._accepting:
            refused = Pending(entry, asyncio.get_running_loop().create_future())
            _give_up(refused, "the ledger does not run")
            return refused.written
        pending = Pending(entry, self._loop.create_future())
        self._pending[pending] = None
        self._queue.append(pending)
        if soon:
            self.hurry()
        elif self._reminder is None:
            self._reminder = self._loop.call_later(DELAY, self._remember)
        if len(self._pending) == self._alarm_at:
            log.error("ledger_backlog", waiting=len(self._pending))
        return pending.written

    def hurry(self) -> None:
        """Somebody waits for what is queued."""
        if not self._ringing:
            self._ringing = True
            self._loop.call_soon(self._ring)

    def _ring(self) -> None:
        """Once in a turn of the event loop: to wake the thread for every entry would cost as much
        as a transaction, and make one of each."""
        self._ringing = False
        self._bell.put(True)

    def _remember(self) -> None:
        self._reminder = None
        if self._queue:
            self.hurry()

    async def stop(self, timeout: float) -> None:
        """Write what waits, in at most so many seconds; the rest goes to the log."""
        if not self._accepting:
            return
        self._stopping = True
        self._end_when_empty()
        await asyncio.wait({self._ended}, timeout=timeout)
        self._accepting = False
        self._given_up.set()
        self._bell.put(False)
        for pending in self._pending:
            _give_up(pending, "the service stopped before the ledger could write")
        self._pending.clear()

    def _end_when_empty(self) -> None:
        if self._stopping and not self._pending:
            self._accepting = False
            self._bell.put(False)

    def _settle(self, batch: Sequence[Pending], unknown: Set[UUID]) -> None:
        for pending in batch:
            self._pending.pop(pending, None)
            if pending.entry.charge.id in unknown:
                log.error("charge_unknown", **_told(pending.entry))
                _fail(pending, UnknownCharge(f"charge {pending.entry.charge.id} was not opened"))
            elif not pending.written.done():
                pending.written.set_result(None)
        self._end_when_empty()

    def _refuse(self, pending: Pending, error: Exception) -> None:
        self._pending.pop(pending, None)
        log.critical("charge_not_written", **_told(pending.entry), exc_info=error)
        _fail(pending, error)
        self._end_when_empty()

    # What follows runs on the thread.

    def _run(self) -> None:
        journal = Journal(self._database)
        for batch in self._batches(journal):
            self._write_until_done(journal, batch)
        journal.close()
        self._tell(self._ended.set_result, None)

    def _batches(self, journal: Journal) -> Iterator[list[Pending]]:
        """All that waits, as often as something does. When nothing did for a while the journal is
        tidied up, so that it is rarely necessary while somebody waits."""
        is_tidy = True
        while True:
            try:
                goes_on = self._bell.get(timeout=PROBE_SECONDS if is_tidy else QUIET_SECONDS)
            except Empty:
                if is_tidy:
                    self._probe(journal)
                else:
                    journal.tidy()
                    is_tidy = True
                continue
            if not goes_on:
                return
            while self._queue:
                yield [self._queue.popleft() for _ in range(min(len(self._queue), BATCH))]
            is_tidy = False

    def _probe(self, journal: Journal) -> None:
        try:
            journal.probe()
        except Exception as error:  # nothing in it comes from a caller
            self._failed(_fault_of(error))
        else:
            self._worked()

    def _write_until_done(self, journal: Journal, batch: Sequence[Pending]) -> None:
        delay = FIRST_DELAY
        while not self._given_up.is_set():
            try:
                self._write(journal, batch)
                self._worked()
                return
            except Exception as error:
                self._failed(_fault_of(error))
            self._given_up.wait(delay * self._dice.uniform(0.5, 1.0))
            delay = min(2 * delay, LONGEST_DELAY)

    def _write(self, journal: Journal, batch: Sequence[Pending]) -> None:
        try:
            unknown = journal.write([pending.entry for pending in batch])
        except DatabaseUnavailable:
            raise
        except Exception as error:
            self._isolate(journal, batch, error)
        else:
            self._tell(self._settle, batch, unknown)

    def _failed(self, fault: DatabaseUnavailable) -> None:
        """One line in the log for each state, however many attempts fail."""
        if self._fault is None:
            self._failing_since = self._clock()
        if type(self._fault) is not type(fault):
            log.critical(
                "database_unavailable",
                state=fault.brief,
                reason=str(fault),
                advice=fault.advice,
                waiting=len(self._pending),
            )
        self._fault = fault

    def _worked(self) -> None:
        if self._fault is not None:
            log.warning("database_available", seconds=round(self.failing_seconds, 1))
            self._fault = None

    def _isolate(self, journal: Journal, batch: Sequence[Pending], error: Exception) -> None:
        """One of these entries is not acceptable to the database: let it fail alone. It is not the
        entry's fault where the database does not take what is known to be right either; that is
        raised."""
        if len(batch) == 1:
            journal.probe()
            self._tell(self._refuse, batch[0], error)
        else:
            for pending in batch:
                self._write_until_done(journal, [pending])

    def _tell(self, call: Callable[..., object], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits any more
            self._loop.call_soon_threadsafe(call, *arguments)


def _give_up(pending: Pending, reason: str) -> None:
    log.critical("charge_not_written", **_told(pending.entry))
    _fail(pending, DatabaseUnavailable(reason))


def _fail(pending: Pending, error: Exception) -> None:
    if not pending.written.done():
        pending.written.set_exception(error)
        pending.written.exception()  # it was logged, whether or not anybody waits for it


def _fault_of(error: Exception) -> DatabaseUnavailable:
    """What an error says of the database where no entry can be to blame for it."""
    if isinstance(error, DatabaseUnavailable):
        return error
    return DatabaseUnavailable(f"{type(error).__name__}: {reason(error)}")


def _told(entry: Entry) -> dict[str, object]:
    """All of an entry, so that it can be written by hand."""
    values = {**asdict(entry.charge), "edge": entry.edge, "moment": entry.moment}
    return {name: v if isinstance(v, int) else str(v) for name, v in values.items()}
