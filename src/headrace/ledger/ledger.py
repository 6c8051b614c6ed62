"""The books: every request is written down when it begins and again when it is over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from uuid import UUID

import structlog

from headrace.ledger.charge import ClosedCharge, Ending, OpenCharge
from headrace.ledger.entries import Entry, interrupt_open_charges
from headrace.ledger.opening import Opening
from headrace.ledger.writer import Writer
from headrace.store.database import Database
from headrace.store.errors import DatabaseUnavailable

CAPACITY = 65536
"""Entries that may wait for the database; more requests are refused."""

PATIENCE_SECONDS = 5.0
"""How long a request waits to be written down when it begins, and again when it ends."""

REFUSE_AFTER = 5.0
"""Seconds for which the database has failed, after which requests are refused at once."""

LATE_SECONDS = 0.1
"""Books that have something to write for longer are late."""

log = structlog.get_logger("headrace.ledger")


class Ledger:
    """Charges of one edge. `start` first; `stop` writes down what is left.

    A charge has one row whatever happens: to open or close it again changes nothing. What
    `close` acknowledged survives the death of the process at any moment. While the database is
    out of reach, closed charges wait for it and new ones are refused.
    """

    def __init__(
        self,
        database: Database,
        edge: UUID,
        *,
        capacity: int = CAPACITY,
        patience: float = PATIENCE_SECONDS,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._edge = edge
        self._capacity = capacity
        self._patience = patience
        self._now = now
        self._writer = Writer(database, alarm_at=capacity // 2)

    async def start(self) -> None:
        """Settle what this edge left open when it died, then be ready.

        Raises DatabaseUnavailable.
        """
        edge, moment = self._edge, self._moment()
        count = await self._database.run(
            lambda connection: interrupt_open_charges(connection, edge, moment), write=True
        )
        if count:
            log.warning("charges_interrupted", count=count)
        self._writer.start()

    async def stop(self, timeout: float = 10.0) -> None:
        """Write down what waits. What cannot be written in `timeout` seconds goes to the log,
        charge by charge."""
        await self._writer.stop(timeout)

    @property
    def fault(self) -> DatabaseUnavailable | None:
        """Why nothing can be written down now; None if it can."""
        return self._writer.fault

    @property
    def backlog(self) -> int:
        """Entries that wait for the database."""
        return len(self._writer)

    @property
    def late(self) -> bool:
        """Whether something has waited for the database for so long that it may be out of reach:
        no time to begin any work before its charge is committed."""
        oldest = self._writer.oldest
        return oldest is not None and self._moment() - oldest.moment > 1000 * LATE_SECONDS

    def open(self, charge: OpenCharge) -> Opening:
        """Write down that a request begins, and is to be closed. It is on its way when this
        returns, with its closing if that comes soon, and committed once the opening was awaited.

        Raises DatabaseUnavailable: too much waits already, or the database has failed for long.
        """
        if self._writer.failing_seconds > REFUSE_AFTER:
            raise self._late(self._writer.failing_seconds)
        if len(self._writer) >= self._capacity:
            raise DatabaseUnavailable(f"{len(self._writer)} charges wait for the database")
        written = self._put(charge, soon=False)
        withdraw = partial(self._withdraw, charge.id)
        return Opening(written, self._patience, self._writer.hurry, withdraw, self._late)

    async def close(
        self,
        charge_id: UUID,
        *,
        prompt_tokens: int,
        completion_tokens: int,
        cached_tokens: int,
        reasoning_tokens: int,
        cost: int = 0,
        ending: Ending,
    ) -> None:
        """Write down what a request came to. It is committed when this returns, and its opening is,
        too. It stays on its way if the caller is cancelled or loses patience: then it is written
        once the database is back. The first close of a charge counts.

        Raises:
            UnknownCharge: it never was opened.
            DatabaseUnavailable: it could not be written in time.
        """
        charge = ClosedCharge(
            id=charge_id,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            cached_tokens=cached_tokens,
            reasoning_tokens=reasoning_tokens,
            cost=cost,
            ending=ending,
        )
        written = self._put(charge)
        loop = asyncio.get_running_loop()
        patience = loop.call_later(self._patience, self._lose_patience, written)
        try:
            await written
        finally:
            patience.cancel()

    def _lose_patience(self, written: asyncio.Future[None]) -> None:
        if not written.done():
            written.set_exception(self._late())

    def _late(self, seconds: float | None = None) -> DatabaseUnavailable:
        fault = self._writer.fault
        kind = DatabaseUnavailable if fault is None else type(fault)
        waited = self._patience if seconds is None else seconds
        return kind(f"no charge could be written in {waited:.3g} s")

    def _withdraw(self, charge_id: UUID) -> None:
        """End a charge whose opening may still be on its way to the database."""
        self._put(
            ClosedCharge(
                id=charge_id,
                prompt_tokens=0,
                completion_tokens=0,
                cached_tokens=0,
                reasoning_tokens=0,
                ending="rejected",
            )
        )

    def _put(self, charge: OpenCharge | ClosedCharge, *, soon: bool = True) -> asyncio.Future[None]:
        return self._writer.put(Entry(charge, self._edge, self._moment()), soon=soon)

    def _moment(self) -> int:
        return int(self._now() * 1000)
