"""An edge that is killed in mid-flight."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL, text

from headrace.ledger.ledger import Ledger
from headrace.store.database import Database

from .books import EDGE, Books, create_holder

LIVES, LINES = 3, 400


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> URL:
    found: URL = request.getfixturevalue(f"{request.param}_url")
    return found


@pytest.fixture
def books(url: URL) -> Iterator[Books]:
    database = Database.open(url)
    yield Books(database, create_holder(database))
    database.close()


async def test_acknowledged_charges_survive_a_kill_exactly_once(url: URL, books: Books) -> None:
    holder = books.holder
    opened: set[str] = set()
    closed: dict[str, int] = {}
    for _ in range(LIVES):
        for line in doomed_life(url, str(holder.tenant_id), holder.id):
            verb, id, *tokens = line.split()
            if verb == "opened":
                opened.add(id)
            else:
                closed[id] = int(tokens[0])
    wait_for_the_dead(books.database)
    ledger = Ledger(books.database, EDGE)
    await ledger.start()
    await ledger.stop()

    rows = {str(row["id"]): row for row in books.rows()}
    assert len(rows) == len(books.rows())
    assert opened <= rows.keys()
    for id, tokens in closed.items():
        assert (rows[id]["ending"], rows[id]["completion_tokens"]) == ("stop", tokens)
    # What was not acknowledged may have been written or not, but never half.
    for id in rows.keys() - closed.keys():
        settled = rows[id]["ending"], rows[id]["completion_tokens"] > 0
        assert settled in {("interrupted", False), ("stop", True)}
    assert len(closed) >= LIVES * LINES // 2 - LIVES * 32


def doomed_life(url: URL, *arguments: str) -> list[str]:
    """What an edge had acknowledged when it was killed, whole lines only."""
    script = Path(__file__).with_name("doomed_edge.py")
    address = url.render_as_string(hide_password=False)
    command = [sys.executable, str(script), address, str(EDGE), *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **pipes) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(LINES)]
        os.kill(process.pid, signal.SIGKILL)
        lines += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL
    return [line for line in lines if line.endswith("\n")]


def wait_for_the_dead(database: Database) -> None:
    """PostgreSQL ends the statement that it is at before it notices that nobody waits for it."""
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    while database.dialect == "postgresql":
        with database.transaction() as connection:
            if connection.scalar(text(f"SELECT count(*) {others}")) == 0:
                return
        time.sleep(0.01)
