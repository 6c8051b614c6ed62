"""Reports are ended in time, when nobody wants them, and when there are too many."""

from __future__ import annotations

import asyncio
import threading

import pytest
from sqlalchemy import Connection, text

from headrace.store.database import Database
from headrace.store.errors import ReportTooLong, TooManyReports
from headrace.store.reports import AT_ONCE, MOST_WAITING, Reports

COUNT = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
    " SELECT count(*) FROM n",
    "postgresql": "SELECT pg_sleep(3600)",
}


def endless(connection: Connection) -> None:
    connection.execute(text(COUNT[connection.dialect.name])).all()


def one(connection: Connection) -> int:
    found: int = connection.scalars(text("SELECT 1")).one()
    return found


async def test_a_report_that_takes_too_long_is_ended_and_its_place_is_free(
    database: Database,
) -> None:
    reports = Reports(database, seconds=0.1)
    async with asyncio.timeout(60):
        for _ in range(2 * AT_ONCE):
            with pytest.raises(ReportTooLong):
                await reports.run("admin", endless)
        assert await Reports(database).run("admin", one) == 1


async def test_a_report_whose_caller_leaves_is_ended(database: Database) -> None:
    reports = Reports(database)
    begun = threading.Event()

    def work(connection: Connection) -> None:
        begun.set()
        endless(connection)

    async with asyncio.timeout(60):
        for number in range(2 * AT_ONCE):
            begun.clear()
            asked = asyncio.create_task(reports.run(f"admin-{number}", work))
            await asyncio.to_thread(begun.wait)
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
        assert await reports.run("admin", one) == 1


async def test_a_report_that_is_ended_between_two_statements_does_not_run_the_next(
    database: Database,
) -> None:
    reports = Reports(database)
    between, go_on = threading.Event(), threading.Event()

    def work(connection: Connection) -> None:
        one(connection)
        between.set()
        go_on.wait()
        endless(connection)

    async with asyncio.timeout(60):
        for number in range(2 * AT_ONCE):
            between.clear()
            go_on.clear()
            asked = asyncio.create_task(reports.run(f"admin-{number}", work))
            await asyncio.to_thread(between.wait)
            asked.cancel()
            await asyncio.sleep(0.2)  # it is interrupted meanwhile
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await asked
        assert await reports.run("admin", one) == 1


async def test_of_one_caller_one_runs_and_few_wait(sqlite: Database) -> None:
    reports = Reports(sqlite)
    free = threading.Event()
    asked = [
        asyncio.create_task(reports.run("greedy", lambda _: free.wait(60)))
        for _ in range(1 + MOST_WAITING)
    ]
    await asyncio.sleep(0)
    try:
        with pytest.raises(TooManyReports):
            await reports.run("greedy", one)
        async with asyncio.timeout(30):
            assert await reports.run("modest", one) == 1
    finally:
        free.set()
        await asyncio.gather(*asked)
    assert await reports.run("greedy", one) == 1
