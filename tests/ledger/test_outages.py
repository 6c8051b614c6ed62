"""The books know that the database is full, damaged or gone, say so once, and come back."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL, Engine, event, text
from structlog.testing import capture_logs

from headrace.ledger import writer
from headrace.ledger.entries import Journal
from headrace.ledger.ledger import Ledger
from headrace.store.database import Database
from headrace.store.errors import (
    DatabaseDamaged,
    DatabaseFull,
    DatabaseReplaced,
    DatabaseUnavailable,
    DiskFails,
)

from .books import EDGE, Books, close, create_holder


@pytest.fixture
async def ledger(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ledger]:
    """It probes all the time, and loses patience at once."""
    monkeypatch.setattr(writer, "PROBE_SECONDS", 0.02)
    monkeypatch.setattr(writer, "QUIET_SECONDS", 0.02)
    monkeypatch.setattr(writer, "LONGEST_DELAY", 0.05)
    ledger = Ledger(sqlite, EDGE, patience=0.2)
    await ledger.start()
    yield ledger
    await ledger.stop()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def read(file: Path) -> bytes:
    return file.read_bytes()


def overwrite(file: Path, content: bytes) -> None:
    """From its beginning, in place."""
    with file.open("r+b") as opened:
        opened.write(content)


def move(file: Path, to: Path) -> None:
    file.rename(to)


def alarms(logs: list[Any]) -> list[str]:
    return [entry["state"] for entry in logs if entry["event"] == "database_unavailable"]


async def test_a_damaged_file_is_known_without_a_request_and_mended_in_place(
    sqlite_url: URL, sqlite: Database, ledger: Ledger
) -> None:
    books = Books(sqlite, create_holder(sqlite))
    charge = books.charge()
    await ledger.open(charge).committed()
    with sqlite.transaction() as connection:
        connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)"))
    file = Path(str(sqlite_url.database))
    whole = read(file)
    with capture_logs() as logs:
        overwrite(file, b"\xff" * 4096)
        await until(lambda: isinstance(ledger.fault, DatabaseDamaged))
        with pytest.raises(DatabaseUnavailable):
            await close(ledger, charge.id)
        with pytest.raises(DatabaseDamaged):
            await sqlite.run(lambda db: db.execute(text("SELECT count(*) FROM tenants")).all())
        overwrite(file, whole)
        await until(lambda: ledger.fault is None)
    assert alarms(logs) == ["the database is damaged"]
    assert [entry["log_level"] for entry in logs if "state" in entry] == ["critical"]
    await until(lambda: not ledger.backlog)
    (row,) = books.rows()
    assert (row["ending"], row["completion_tokens"]) == ("stop", 7)


async def test_a_file_that_is_replaced_is_not_written_to(
    sqlite_url: URL, sqlite: Database, ledger: Ledger
) -> None:
    file = Path(str(sqlite_url.database))
    aside = file.with_suffix(".aside")
    create_holder(sqlite)
    shutil.copy(file, file.with_suffix(".copy"))
    move(file, aside)
    await until(lambda: isinstance(ledger.fault, DatabaseReplaced))
    move(file.with_suffix(".copy"), file)
    with pytest.raises(DatabaseReplaced):
        await sqlite.run(lambda db: db.execute(text("SELECT 1")).all())
    assert isinstance(ledger.fault, DatabaseReplaced)
    move(aside, file)
    await until(lambda: ledger.fault is None)


async def test_a_full_disk_is_named_and_nothing_is_lost(sqlite: Database, ledger: Ledger) -> None:
    books = Books(sqlite, create_holder(sqlite))
    full = True
    limited: list[bool] = []
    with sqlite.transaction() as connection:
        pages = connection.scalar(text("PRAGMA page_count"))

    def limit(connection: Any, _: object) -> None:
        if full:
            connection.execute(f"PRAGMA max_page_count = {pages}")
            limited.append(True)

    event.listen(Engine, "connect", limit)
    try:
        await until(lambda: limited)  # a probe connects anew
        charges = [books.charge(request_id="x" * 3000) for _ in range(8)]
        with capture_logs() as logs:
            opened = await asyncio.gather(
                *(ledger.open(charge).committed() for charge in charges), return_exceptions=True
            )
            assert {type(result) for result in opened} == {DatabaseFull}
            assert isinstance(ledger.fault, DatabaseFull)
            full = False
            await until(lambda: not ledger.backlog)
        assert alarms(logs) == ["the database's disk is full"]
    finally:
        event.remove(Engine, "connect", limit)
    assert ledger.fault is None
    assert [row["ending"] for row in books.rows()] == ["rejected"] * 8


async def test_a_close_waits_so_long_and_is_written_once_the_database_is_back(
    sqlite_url: URL, sqlite: Database, ledger: Ledger
) -> None:
    """Also where the opening was not written either: an answer that is not streamed."""
    books = Books(sqlite, create_holder(sqlite))
    before, both = books.charge(), books.charge()
    await ledger.open(before).committed()
    file = Path(str(sqlite_url.database))
    move(file, file.with_suffix(".aside"))
    ledger.open(both)
    closing = [close(ledger, charge.id) for charge in (before, both)]
    results = await asyncio.gather(*closing, return_exceptions=True)
    assert [type(result) for result in results] == [DatabaseReplaced] * 2
    move(file.with_suffix(".aside"), file)
    await until(lambda: not ledger.backlog)
    assert [(row["ending"], row["completion_tokens"]) for row in books.rows()] == [("stop", 7)] * 2


async def test_after_a_long_outage_requests_are_refused_at_once(
    sqlite_url: URL, sqlite: Database, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    books = Books(sqlite, create_holder(sqlite))
    monkeypatch.setattr("headrace.ledger.ledger.REFUSE_AFTER", 0.0)
    file = Path(str(sqlite_url.database))
    move(file, file.with_suffix(".aside"))
    await until(lambda: ledger.fault is not None)
    with pytest.raises(DatabaseReplaced, match="no charge could be written"):
        ledger.open(books.charge())
    assert not ledger.backlog
    move(file.with_suffix(".aside"), file)


def put_a_file(folder: Path) -> None:
    folder.touch()


def put_a_loop(folder: Path) -> None:
    """A link to itself, which no `stat` can follow."""
    folder.symlink_to(folder)


@pytest.mark.parametrize(("put", "kind"), [(put_a_file, DatabaseReplaced), (put_a_loop, DiskFails)])
async def test_a_folder_that_cannot_be_looked_into_is_a_fault_and_ends_when_it_is_back(
    put: Callable[[Path], None],
    kind: type[DatabaseUnavailable],
    sqlite_url: URL,
    sqlite: Database,
    ledger: Ledger,
) -> None:
    books = Books(sqlite, create_holder(sqlite))
    folder = Path(str(sqlite_url.database)).parent
    aside = folder.with_name("aside")
    move(folder, aside)
    put(folder)
    await until(lambda: type(ledger.fault) is kind)
    with pytest.raises(kind):
        await sqlite.run(lambda db: db.execute(text("SELECT 1")).all())
    charge = books.charge()
    ledger.open(charge)
    with pytest.raises(kind):
        await close(ledger, charge.id)
    folder.unlink()
    move(aside, folder)
    await until(lambda: ledger.fault is None and not ledger.backlog)
    assert [row["ending"] for row in books.rows()] == ["stop"]


async def test_rights_that_are_taken_away_keep_the_entries_and_are_a_fault(
    sqlite: Database, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver's error that nobody has a name for, of entries and without any."""
    books = Books(sqlite, create_holder(sqlite))
    taken = True

    def guarded(work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if taken:
                raise sqlite3.ProgrammingError("permission denied for table charges")
            return work(*arguments)

        return call

    monkeypatch.setattr(Journal, "probe", guarded(Journal.probe))
    monkeypatch.setattr(Journal, "write", guarded(Journal.write))
    with capture_logs() as logs:
        await until(lambda: ledger.fault is not None)
        charges = [books.charge() for _ in range(3)]
        for charge in charges:
            ledger.open(charge)
        results = await asyncio.gather(
            *(close(ledger, charge.id) for charge in charges), return_exceptions=True
        )
        assert {type(result) for result in results} == {DatabaseUnavailable}
        assert "permission denied" in str(ledger.fault)
        taken = False
        await until(lambda: ledger.fault is None and not ledger.backlog)
    assert [row["ending"] for row in books.rows()] == ["stop"] * 3
    assert alarms(logs) == ["the database cannot be reached"]
    assert "charge_not_written" not in [entry["event"] for entry in logs]


async def test_an_entry_that_the_database_does_not_take_is_refused_alone(
    sqlite: Database, ledger: Ledger
) -> None:
    books = Books(sqlite, create_holder(sqlite))
    good, bad = books.charge(), books.charge(request_id=object())
    opened = await asyncio.gather(
        *(ledger.open(charge).committed() for charge in (good, bad)), return_exceptions=True
    )
    assert opened[0] is None
    assert isinstance(opened[1], Exception)
    assert not isinstance(opened[1], DatabaseUnavailable)
    assert ledger.fault is None
    await close(ledger, good.id)
    assert [row["ending"] for row in books.rows()] == ["stop"]
