"""How changes reach those who remember: at once, by notice, by looking, and after an outage."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import URL, text
from structlog.testing import capture_logs

from headrace.access.changes import Changes
from headrace.access.revision import CHANNEL
from headrace.access.tenants import create_tenant
from headrace.store.database import Database
from headrace.store.errors import DatabaseUnavailable
from headrace.store.lane import Lane

NEVER = 3600.0
CREATE = (
    "import sys; from sqlalchemy import make_url\n"
    "from headrace.store.database import Database\n"
    "from headrace.access.tenants import create_tenant\n"
    "with Database.open(make_url(sys.argv[1])).transaction(write=True) as connection:\n"
    "    create_tenant(connection, 'acme', actor='test')\n"
)


@asynccontextmanager
async def watching(
    database: Database, poll_seconds: float = NEVER
) -> AsyncIterator[tuple[Changes, asyncio.Queue[None]]]:
    """What is told arrives in the queue."""
    changes, heard = Changes(database, poll_seconds=poll_seconds), asyncio.Queue[None]()
    await changes.start()
    changes.subscribe(lambda _: heard.put_nowait(None))
    try:
        yield changes, heard
    finally:
        await changes.stop()


async def hears(heard: asyncio.Queue[None]) -> None:
    async with asyncio.timeout(10):
        await heard.get()


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110, nobody tells
            await asyncio.sleep(0.005)


def create(database: Database, name: str = "acme") -> None:
    with database.transaction(write=True) as connection:
        create_tenant(connection, name, actor="test")


def listeners(database: Database) -> list[int]:
    """Connections that listen."""
    with database.transaction() as connection:
        query = (
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query = :query"
        )
        return list(connection.scalars(text(query), {"query": f"LISTEN {CHANNEL}"}))


async def create_elsewhere(url: URL) -> None:
    command = sys.executable, "-c", CREATE, url.render_as_string(hide_password=False)
    process = await asyncio.create_subprocess_exec(*command)
    assert await process.wait() == 0


async def test_a_change_in_this_process_is_told_without_looking(database: Database) -> None:
    async with watching(database) as (_, heard):
        await asyncio.to_thread(create, database)
        await hears(heard)


async def test_a_change_that_is_undone_is_not_told(database: Database) -> None:
    async with watching(database) as (_, heard):
        with pytest.raises(ZeroDivisionError), database.transaction(write=True) as connection:
            create_tenant(connection, "acme", actor="test")
            raise ZeroDivisionError
        with database.transaction():
            pass
        await asyncio.sleep(0.05)
        assert heard.empty()


async def test_a_change_by_another_process_is_seen_by_looking(
    sqlite: Database, sqlite_url: URL
) -> None:
    async with watching(sqlite, poll_seconds=0.02) as (_, heard):
        await create_elsewhere(sqlite_url)
        await hears(heard)


async def test_a_change_by_another_process_is_told_without_looking(
    postgresql_database: Database, postgresql_url: URL
) -> None:
    async with watching(postgresql_database) as (_, heard):
        await until(lambda: listeners(postgresql_database))
        await create_elsewhere(postgresql_url)
        await hears(heard)


async def test_a_listener_whose_connection_is_lost_comes_back_and_looks_at_once(
    postgresql_database: Database, postgresql_url: URL
) -> None:
    other = Database.open(postgresql_url)
    with capture_logs() as logs:
        async with watching(postgresql_database) as (_, heard):
            await until(lambda: listeners(other))
            with other.transaction() as connection:
                (lost,) = listeners(other)
                connection.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": lost})
            create(other)
            await hears(heard)
            await until(lambda: listeners(other))
            create(other, "globex")
            await hears(heard)
    assert "notices_lost" in [entry["event"] for entry in logs]
    other.close()


async def test_who_stopped_hears_nothing(database: Database) -> None:
    async with watching(database, poll_seconds=0.01) as (_, heard):
        pass
    create(database)
    await asyncio.sleep(0.05)
    assert heard.empty()


async def test_without_changes_nothing_is_told(database: Database) -> None:
    async with watching(database, poll_seconds=0.005) as (changes, heard):
        for _ in range(3):
            await changes.refresh()
        assert heard.empty()


async def test_an_outage_is_told_once_and_survived(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, asked = Lane.run, asyncio.Queue[None]()

    async def unreachable(*arguments: object, **options: object) -> None:
        asked.put_nowait(None)
        raise DatabaseUnavailable("out of reach")

    with capture_logs() as logs:
        async with watching(sqlite, poll_seconds=0.001) as (_, heard):
            monkeypatch.setattr(Lane, "run", unreachable)
            for _ in range(3):
                await asked.get()
            create(sqlite)
            monkeypatch.setattr(Lane, "run", run)
            await hears(heard)
    assert [entry["event"] for entry in logs] == ["changes_delayed"]
