"""Transactions: whole or not at all, one writer at a time, never in the way of readers."""

from __future__ import annotations

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import URL, Connection, func, insert, select, text, update
from sqlalchemy.exc import IntegrityError

from headrace.store.database import WAL_PAGES, Database
from headrace.store.errors import DatabaseUnavailable, StoreError, unavailable
from headrace.store.ids import uuid7
from headrace.store.schema import counters, keys, tenants


def add_tenant(connection: Connection, name: str) -> None:
    connection.execute(insert(tenants).values(id=uuid7(), name=name, created_at=1))


def count_tenants(connection: Connection) -> int:
    return connection.scalars(select(func.count()).select_from(tenants)).one()


def test_a_transaction_that_raises_is_undone(database: Database) -> None:
    with pytest.raises(KeyError), database.transaction(write=True) as connection:
        add_tenant(connection, "acme")
        raise KeyError
    with database.transaction() as connection:
        assert count_tenants(connection) == 0


async def test_work_runs_on_a_thread_and_is_committed(database: Database) -> None:
    await database.run(lambda connection: add_tenant(connection, "acme"), write=True)
    assert await database.run(count_tenants) == 1


async def test_work_goes_on_when_its_caller_gives_up(database: Database) -> None:
    loop, begun, go_on = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

    def work(connection: Connection) -> None:
        loop.call_soon_threadsafe(begun.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()
        add_tenant(connection, "acme")

    running = asyncio.create_task(database.run(work, write=True))
    await begun.wait()
    running.cancel()
    await asyncio.wait({running})
    go_on.set()
    while await database.run(count_tenants) == 0:  # noqa: ASYNC110, only the commit is left
        await asyncio.sleep(0.005)


def test_writers_that_read_first_never_fail(database: Database) -> None:
    """Each reads, then writes what it read: all must count, and none be told to try again."""

    def increment(_: int) -> None:
        with database.transaction(write=True) as connection:
            query = select(counters.c.value).where(counters.c.name == "registry").with_for_update()
            value = connection.scalars(query).one()
            connection.execute(update(counters).values(value=value + 1))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(increment, range(100)))
    with database.transaction() as connection:
        assert connection.scalars(select(counters.c.value)).one() == 100


def test_a_reader_neither_waits_for_a_writer_nor_sees_half_of_it(database: Database) -> None:
    with database.transaction(write=True) as writing:
        add_tenant(writing, "acme")
        with database.transaction() as reading:
            assert count_tenants(reading) == 0
    with database.transaction() as reading:
        assert count_tenants(reading) == 1


def test_rows_must_belong_to_something(database: Database) -> None:
    values = {"id": "k", "tenant_id": uuid7(), "scopes": "", "created_at": 1}
    with pytest.raises(IntegrityError), database.transaction(write=True) as connection:
        connection.execute(insert(keys).values(values))


def test_a_lock_held_elsewhere_makes_it_unavailable(sqlite_url: URL) -> None:
    database = Database.open(sqlite_url, lock_seconds=0.01)
    other = sqlite3.connect(str(sqlite_url.database), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(DatabaseUnavailable, match="locked"), database.transaction(write=True):
        raise AssertionError("it is locked")
    other.execute("ROLLBACK")
    with database.transaction(write=True) as connection:
        add_tenant(connection, "acme")
    other.close()
    database.close()


def test_connections_that_the_server_ended_are_replaced(
    postgresql_url: URL, postgresql_database: Database
) -> None:
    with postgresql_database.transaction() as connection:
        idle = connection.scalars(text("SELECT pg_backend_pid()")).one()
    other = Database.open(postgresql_url)
    with other.transaction() as connection:
        connection.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": idle})
    with postgresql_database.transaction() as connection:
        assert connection.scalars(text("SELECT pg_backend_pid()")).one() != idle
    other.close()


def test_a_connection_lost_in_a_transaction_makes_it_unavailable_until_the_next(
    postgresql_database: Database,
) -> None:
    kill = text("SELECT pg_terminate_backend(pg_backend_pid())")
    with (
        pytest.raises(DatabaseUnavailable, match="terminating"),
        postgresql_database.transaction(write=True) as connection,
    ):
        add_tenant(connection, "acme")
        connection.execute(kill)
    with postgresql_database.transaction() as connection:
        assert count_tenants(connection) == 0


def test_sqlite_runs_as_promised(sqlite: Database) -> None:
    def pragma(connection: Connection, name: str) -> object:
        return connection.execute(text(f"PRAGMA {name}")).scalar()

    with sqlite.transaction() as connection:
        assert pragma(connection, "journal_mode") == "wal"
        assert pragma(connection, "synchronous") == 1
        assert pragma(connection, "foreign_keys") == 1
        assert pragma(connection, "busy_timeout") == 5000
        assert pragma(connection, "wal_autocheckpoint") == WAL_PAGES


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary " * 100)
    with pytest.raises(StoreError, match=r"notes\.txt.*not a database"):
        Database.open(URL.create("sqlite", database=str(path)))
    assert path.read_text() == "dear diary " * 100


def test_its_folder_is_made_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "headrace.db"
    Database.open(URL.create("sqlite", database=str(path))).close()
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("kind", ["InsufficientPrivilege", "ReadOnlySqlTransaction"])
def test_rights_that_are_taken_away_make_it_unavailable(kind: str) -> None:
    fault = unavailable(getattr(psycopg.errors, kind)("permission denied"), psycopg)
    assert isinstance(fault, DatabaseUnavailable)
