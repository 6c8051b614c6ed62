"""Migrations: from nothing, again, by several processes at once, and true to the schema."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, insert, inspect, select, text

import headrace.store
from headrace.store.database import Database
from headrace.store.errors import DatabaseUnavailable, StoreError
from headrace.store.ids import uuid7
from headrace.store.migrate import revision
from headrace.store.schema import HEAD, counters, metadata, tenants


def tables(database: Database) -> set[str]:
    with database.transaction() as connection:
        return set(inspect(connection).get_table_names())


def test_an_empty_database_gets_every_table(empty_url: URL) -> None:
    database = Database.open(empty_url)
    assert tables(database) == {*metadata.tables, "alembic_version"}
    with database.transaction() as connection:
        assert revision(connection) == HEAD
        assert connection.execute(select(counters.c.name, counters.c.value)).all() == [
            ("registry", 0)
        ]
    database.close()


def test_migrations_make_what_the_schema_says(database: Database) -> None:
    with database.transaction() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_head_is_the_last_migration() -> None:
    scripts = Path(headrace.store.__file__).with_name("migrations")
    assert ScriptDirectory(str(scripts)).get_heads() == [HEAD]


def test_opening_again_changes_nothing(empty_url: URL) -> None:
    first = Database.open(empty_url)
    with first.transaction(write=True) as connection:
        connection.execute(insert(tenants).values(id=uuid7(), name="acme", created_at=1))
    first.close()
    second = Database.open(empty_url)
    with second.transaction() as connection:
        assert connection.scalars(select(tenants.c.name)).all() == ["acme"]
    second.close()


def test_threads_that_open_at_once_all_find_it_migrated(empty_url: URL) -> None:
    with ThreadPoolExecutor(6) as threads:
        opened = list(threads.map(Database.open, [empty_url] * 6))
    for database in opened:
        assert "charges" in tables(database)
        database.close()


def test_processes_that_open_at_once_all_find_it_migrated(empty_url: URL) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as processes:
        assert processes.map(_open_and_count, [empty_url] * 2) == [len(metadata.tables) + 1] * 2


def _open_and_count(url: URL) -> int:
    database = Database.open(url)
    count = len(tables(database))
    database.close()
    return count


def test_a_current_database_opens_without_alembic(sqlite_url: URL) -> None:
    command = (
        "import sys; from sqlalchemy import make_url; "
        "from headrace.store.database import Database; "
        f"Database.open(make_url({str(sqlite_url)!r})).close(); "
        "sys.exit('alembic' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", command], check=True)


def test_a_database_of_a_newer_release_is_refused(sqlite_url: URL) -> None:
    database = Database.open(sqlite_url)
    with database.transaction(write=True) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    database.close()
    with pytest.raises(StoreError, match=r"9999.*newer Headrace"):
        Database.open(sqlite_url)


def test_a_migration_that_fails_leaves_nothing(
    empty_url: URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    from alembic import command

    def half_way(config: object, target: object) -> None:
        connection = config.attributes["connection"]  # type: ignore[attr-defined]
        connection.execute(text("CREATE TABLE half (id INTEGER)"))
        raise OSError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(command, "upgrade", half_way)
        with pytest.raises(OSError, match="disk"):
            Database.open(empty_url)
    database = Database.open(empty_url)
    assert "half" not in tables(database)
    database.close()


def test_a_server_out_of_reach_is_unavailable() -> None:
    url = URL.create("postgresql+psycopg", "nobody", host="127.0.0.1", port=1, password="hidden")
    with pytest.raises(DatabaseUnavailable) as caught:
        Database.open(url)
    assert "hidden" not in str(caught.value)
