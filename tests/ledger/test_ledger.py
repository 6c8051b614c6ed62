"""One true row a request, whatever happens."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence, Set
from contextlib import asynccontextmanager, closing, contextmanager
from typing import Any
from uuid import UUID

import psycopg
import pytest
from msgspec.structs import replace
from sqlalchemy import URL
from structlog.testing import capture_logs

from headrace.ledger import writer
from headrace.ledger.charge import ClosedCharge
from headrace.ledger.entries import Entry, Journal, interrupt_open_charges
from headrace.ledger.errors import UnknownCharge
from headrace.ledger.ledger import Ledger
from headrace.ledger.opening import Opening
from headrace.store.database import Database
from headrace.store.errors import DatabaseUnavailable
from headrace.store.ids import uuid7

from .books import EDGE, OTHER_EDGE, Books, close, create_holder


@asynccontextmanager
async def running(database: Database, edge: object = EDGE, **options: Any) -> AsyncIterator[Ledger]:
    ledger = Ledger(database, edge, **options)  # type: ignore[arg-type]
    await ledger.start()
    yield ledger
    await ledger.stop()


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many entries each transaction wrote."""
    seen: list[int] = []
    write = Journal.write

    def count(journal: Journal, entries: Sequence[Entry]) -> Set[UUID]:
        seen.append(len(entries))
        return write(journal, entries)

    monkeypatch.setattr(Journal, "write", count)
    return seen


@contextmanager
def locked(url: URL) -> Iterator[Callable[[], None]]:
    """The database locked by another process; call it to unlock."""
    other = sqlite3.connect(str(url.database), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield lambda: (other.execute("ROLLBACK"), None)[1]
    finally:
        other.close()


@pytest.fixture
def hasty(sqlite_url: URL) -> Iterator[Database]:
    """A database that does not wait for locks."""
    database = Database.open(sqlite_url, lock_seconds=0.001)
    yield database
    database.close()


async def test_a_charge_is_there_when_opened_and_whole_when_closed(books: Books) -> None:
    charge = books.charge()
    now = 1_700_000_000.5
    async with running(books.database, now=lambda: now) as ledger:
        await ledger.open(charge).committed()
        (row,) = books.rows()
        assert row["ending"] is row["closed_at"] is None
        assert row["opened_at"] == 1_700_000_000_500
        await ledger.close(
            charge.id,
            prompt_tokens=5,
            completion_tokens=7,
            cached_tokens=2,
            reasoning_tokens=1,
            cost=2**62,
            ending="length",
        )
        (row,) = books.rows()
    assert row == {
        "id": charge.id,
        "edge": EDGE,
        "tenant_id": books.holder.tenant_id,
        "key_id": books.holder.id,
        "request_id": "req_1",
        "endpoint": "/v1/completions",
        "stream": True,
        "model": "smollm2-135m",
        "model_version": "abc123",
        "opened_at": 1_700_000_000_500,
        "closed_at": 1_700_000_000_500,
        "prompt_tokens": 5,
        "completion_tokens": 7,
        "cached_tokens": 2,
        "reasoning_tokens": 1,
        "ending": "length",
        "price_id": None,
        "cost": 2**62,
    }


async def test_to_open_or_close_again_changes_nothing(books: Books) -> None:
    charge = books.charge()
    async with running(books.database) as ledger:
        await asyncio.gather(ledger.open(charge).committed(), ledger.open(charge).committed())
        await close(ledger, charge.id, tokens=7)
        before = books.rows()
        await asyncio.gather(*(close(ledger, charge.id, tokens=n) for n in (8, 9)))
        await ledger.open(replace(charge, model="another")).committed()
    assert books.rows() == before
    assert before[0]["completion_tokens"] == 7


async def test_200_closes_at_once_take_a_few_transactions(books: Books, batches: list[int]) -> None:
    charges = [books.charge() for _ in range(200)]
    async with running(books.database) as ledger:
        await asyncio.gather(*(ledger.open(charge).committed() for charge in charges))
        openings = len(batches)
        await asyncio.gather(*(close(ledger, c.id, n) for n, c in enumerate(charges)))
    assert [row["completion_tokens"] for row in books.rows()] == list(range(200))
    assert all(row["ending"] == "stop" for row in books.rows())
    assert sum(batches) == 400
    assert openings <= 3
    assert len(batches) - openings <= 3


async def test_a_charge_that_never_was_opened_cannot_be_closed(books: Books) -> None:
    charge, ghost = books.charge(), uuid7()
    async with running(books.database) as ledger:
        await ledger.open(charge).committed()
        with capture_logs() as logs:
            good, bad = await asyncio.gather(
                close(ledger, charge.id), close(ledger, ghost), return_exceptions=True
            )
    assert good is None
    assert isinstance(bad, UnknownCharge)
    assert [(entry["event"], entry["id"]) for entry in logs] == [("charge_unknown", str(ghost))]
    assert len(books.rows()) == 1


async def test_an_unacceptable_charge_fails_alone(books: Books) -> None:
    charges = [books.charge() for _ in range(5)]
    charges[2] = replace(charges[2], key_id="no such key")
    async with running(books.database) as ledger:
        with capture_logs() as logs:
            results = await asyncio.gather(
                *(ledger.open(charge).committed() for charge in charges), return_exceptions=True
            )
    assert [type(result) for result in results].count(type(None)) == 4
    assert isinstance(results[2], (sqlite3.IntegrityError, psycopg.IntegrityError))
    assert [(e["event"], e["key_id"]) for e in logs] == [("charge_not_written", "no such key")]
    assert len(books.rows()) == 4


async def test_what_this_edge_left_open_is_interrupted_at_its_next_start(books: Books) -> None:
    mine, done, theirs = books.charge(), books.charge(), books.charge()
    async with running(books.database) as first, running(books.database, OTHER_EDGE) as other:
        await first.open(mine).committed()
        await first.open(done).committed()
        await close(first, done.id)
        await other.open(theirs).committed()
    async with running(books.database, now=lambda: 9.0):
        rows = {row["id"]: row for row in books.rows()}
    assert rows[mine.id]["ending"] == "interrupted"
    assert rows[mine.id]["closed_at"] == 9_000
    assert rows[mine.id]["completion_tokens"] == 0
    assert rows[done.id]["ending"] == "stop"
    assert rows[theirs.id]["ending"] is None


async def test_a_charge_taken_for_interrupted_gets_its_true_counts(books: Books) -> None:
    charge = books.charge()
    async with running(books.database) as first:
        await first.open(charge).committed()
        async with running(books.database):
            assert books.rows()[0]["ending"] == "interrupted"
        await close(first, charge.id)
    (row,) = books.rows()
    assert (row["ending"], row["completion_tokens"]) == ("stop", 7)


async def test_stop_writes_what_waits(books: Books) -> None:
    charges = [books.charge() for _ in range(20)]
    ledger = Ledger(books.database, EDGE)
    await ledger.start()
    await asyncio.gather(*(ledger.open(charge).committed() for charge in charges))
    closing = [asyncio.create_task(close(ledger, charge.id)) for charge in charges]
    await asyncio.sleep(0)
    await ledger.stop()
    assert all(row["ending"] == "stop" for row in books.rows())
    await asyncio.gather(*closing)


async def test_a_close_whose_caller_is_cancelled_is_written(books: Books) -> None:
    charge = books.charge()
    async with running(books.database) as ledger:
        await ledger.open(charge).committed()
        closing = asyncio.create_task(close(ledger, charge.id))
        await asyncio.sleep(0)
        closing.cancel()
    assert books.rows()[0]["ending"] == "stop"


async def test_an_open_whose_caller_is_cancelled_leaves_nothing_open(books: Books) -> None:
    async with running(books.database) as ledger:
        opening = asyncio.ensure_future(ledger.open(books.charge()).committed())
        await asyncio.sleep(0)
        opening.cancel()
    assert [row["ending"] for row in books.rows()] == ["rejected"]


async def test_a_lock_delays_charges_and_loses_none(sqlite_url: URL, hasty: Database) -> None:
    books = Books(hasty, create_holder(hasty))
    charge = books.charge()
    async with running(hasty) as ledger:
        await ledger.open(charge).committed()
        with locked(sqlite_url) as unlock, capture_logs() as logs:
            closing = asyncio.create_task(close(ledger, charge.id))
            while not logs:  # noqa: ASYNC110, it has tried and failed
                await asyncio.sleep(0.001)
            assert not closing.done()
            unlock()
            await closing
    assert logs[0]["event"] == "database_unavailable"
    assert "locked" in logs[0]["reason"]
    assert books.rows()[0]["ending"] == "stop"


async def test_while_locked_requests_are_refused_and_leave_nothing_open(
    sqlite_url: URL, hasty: Database
) -> None:
    books = Books(hasty, create_holder(hasty))
    async with running(hasty, capacity=3, patience=0.01) as ledger:
        with locked(sqlite_url) as unlock, capture_logs() as logs:
            with pytest.raises(DatabaseUnavailable, match="could be written"):
                await ledger.open(books.charge()).committed()
            with pytest.raises(DatabaseUnavailable, match="could be written"):
                await ledger.open(books.charge()).committed()
            with pytest.raises(DatabaseUnavailable, match="wait for the database"):
                await ledger.open(books.charge()).committed()
            unlock()
    assert [row["ending"] for row in books.rows()] == ["rejected", "rejected"]
    assert "ledger_backlog" in [entry["event"] for entry in logs]


async def test_what_cannot_be_written_at_the_end_is_in_the_log(
    sqlite_url: URL, hasty: Database
) -> None:
    books = Books(hasty, create_holder(hasty))
    charge = books.charge()
    ledger = Ledger(hasty, EDGE)
    await ledger.start()
    await ledger.open(charge).committed()
    with locked(sqlite_url), capture_logs() as logs:
        closing = asyncio.create_task(close(ledger, charge.id))
        await asyncio.sleep(0)
        await ledger.stop(timeout=0.05)
        with pytest.raises(DatabaseUnavailable):
            await closing
        while "ledger" in {thread.name for thread in threading.enumerate()}:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    (lost,) = [entry for entry in logs if entry["event"] == "charge_not_written"]
    assert (lost["id"], lost["completion_tokens"], lost["ending"]) == (str(charge.id), 7, "stop")


async def test_after_the_end_nothing_waits_for_ever(sqlite_books: Books) -> None:
    charge = sqlite_books.charge()
    async with running(sqlite_books.database) as ledger:
        await ledger.open(charge).committed()
    with capture_logs() as logs:
        with pytest.raises(DatabaseUnavailable, match="does not run"):
            await ledger.open(sqlite_books.charge()).committed()
        with pytest.raises(DatabaseUnavailable, match="does not run"):
            await close(ledger, charge.id)
    assert [entry["event"] for entry in logs] == ["charge_not_written"] * 2


async def test_the_journal_is_tidied_once_when_it_is_quiet(
    sqlite_books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, quiet, times = asyncio.get_running_loop(), asyncio.Event(), []

    def tidy(_journal: Journal) -> None:
        times.append(loop.time())
        loop.call_soon_threadsafe(quiet.set)

    monkeypatch.setattr(Journal, "tidy", tidy)
    monkeypatch.setattr(writer, "QUIET_SECONDS", 0.02)
    async with running(sqlite_books.database) as ledger:
        await asyncio.sleep(0.05)
        assert not times
        await ledger.open(sqlite_books.charge()).committed()
        await quiet.wait()
        await asyncio.sleep(0.05)
    assert len(times) == 1


async def test_books_are_late_while_something_waits_for_long(
    sqlite_url: URL, hasty: Database
) -> None:
    books, clock = Books(hasty, create_holder(hasty)), [1000.0]
    async with running(hasty, now=lambda: clock[0]) as ledger:
        with locked(sqlite_url) as unlock:
            opening = ledger.open(books.charge())
            clock[0] += 0.09
            assert not ledger.late
            clock[0] += 0.02
            assert ledger.late
            assert not opening.failed
            unlock()
            await opening.committed()
        assert not ledger.late


async def test_a_charge_may_be_closed_while_it_is_being_opened(books: Books) -> None:
    charge = books.charge()
    async with running(books.database) as ledger:
        opening = ledger.open(charge)
        await close(ledger, charge.id)
        await opening.committed()
    assert books.rows()[0]["ending"] == "stop"


async def test_two_may_wait_for_an_opening(sqlite_url: URL, hasty: Database) -> None:
    books = Books(hasty, create_holder(hasty))

    async def wait(opening: Opening) -> None:
        await opening.committed()

    async with running(hasty, patience=0.01) as ledger:
        with locked(sqlite_url):
            opening = ledger.open(books.charge())
            results = await asyncio.gather(*map(wait, [opening] * 2), return_exceptions=True)
            assert opening.failed
    assert [type(result) for result in results] == [DatabaseUnavailable] * 2
    assert [row["ending"] for row in books.rows()] == ["rejected"]


async def test_an_opening_nobody_waits_for_goes_with_its_closing(
    books: Books, batches: list[int]
) -> None:
    async with running(books.database) as ledger:
        charges = [books.charge(), books.charge()]
        ledger.open(charges[0])
        await asyncio.sleep(0)
        await close(ledger, charges[0].id)
        assert batches == [2]
        ledger.open(charges[1])  # alone, soon
        while len(batches) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        assert len(books.rows()) == 2


async def test_stop_writes_an_opening_that_nobody_waits_for(books: Books) -> None:
    async with running(books.database) as ledger:
        ledger.open(books.charge())
    assert [row["ending"] for row in books.rows()] == [None]


def closed(id: UUID, tokens: int) -> ClosedCharge:
    counts = dict.fromkeys(("prompt_tokens", "cached_tokens", "reasoning_tokens"), 0)
    return ClosedCharge(id=id, completion_tokens=tokens, ending="stop", **counts)


def test_what_is_opened_and_closed_at_once_is_one_row_like_any_other(books: Books) -> None:
    charge = books.charge()
    with closing(Journal(books.database)) as journal:
        opening, end = Entry(charge, EDGE, 1), Entry(closed(charge.id, 7), EDGE, 2)
        for entries in ([opening, end], [opening, end], [opening], [end, end]):
            assert not journal.write(entries)
        (row,) = books.rows()
        assert (row["opened_at"], row["closed_at"], row["completion_tokens"]) == (1, 2, 7)
        again = Entry(closed(charge.id, 8), EDGE, 3)
        assert not journal.write([opening, again, again])
        assert books.rows() == [row]
        lost = books.charge()
        assert not journal.write([Entry(lost, EDGE, 4)])
        with books.database.transaction(write=True) as connection:
            assert interrupt_open_charges(connection, EDGE, 5) == 1
        assert not journal.write([Entry(lost, EDGE, 4), Entry(closed(lost.id, 9), EDGE, 6)])
        assert [row["completion_tokens"] for row in books.rows()] == [7, 9]
        ghost = Entry(closed(uuid7(), 1), EDGE, 7)
        assert journal.write([opening, end, ghost]) == {ghost.charge.id}
