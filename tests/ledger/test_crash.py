"""An edge that is killed in mid-flight."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from sqlalchemy import URL

from headrace.ledger.ledger import Ledger

from .books import EDGE, Books

LIVES, LINES = 3, 400


async def test_acknowledged_charges_survive_a_kill_exactly_once(
    sqlite_url: URL, sqlite_books: Books
) -> None:
    holder = sqlite_books.holder
    opened: set[str] = set()
    closed: dict[str, int] = {}
    for _ in range(LIVES):
        for line in doomed_life(str(sqlite_url), str(holder.tenant_id), holder.id):
            verb, id, *tokens = line.split()
            if verb == "opened":
                opened.add(id)
            else:
                closed[id] = int(tokens[0])
    ledger = Ledger(sqlite_books.database, EDGE)
    await ledger.start()
    await ledger.stop()

    rows = {str(row["id"]): row for row in sqlite_books.rows()}
    assert len(rows) == len(sqlite_books.rows())
    assert opened <= rows.keys()
    for id, tokens in closed.items():
        assert (rows[id]["ending"], rows[id]["completion_tokens"]) == ("stop", tokens)
    # What was not acknowledged may have been written or not, but never half.
    for id in rows.keys() - closed.keys():
        settled = rows[id]["ending"], rows[id]["completion_tokens"] > 0
        assert settled in {("interrupted", False), ("stop", True)}
    assert len(closed) >= LIVES * LINES // 2 - LIVES * 32


def doomed_life(*arguments: str) -> list[str]:
    """What an edge had acknowledged when it was killed, whole lines only."""
    script = Path(__file__).with_name("doomed_edge.py")
    url, *rest = arguments
    command = [sys.executable, str(script), url, str(EDGE), *rest]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **pipes) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(LINES)]
        os.kill(process.pid, signal.SIGKILL)
        lines += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL
    return [line for line in lines if line.endswith("\n")]
