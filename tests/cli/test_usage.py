"""`headrace usage` as a process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.ledger.ledger import Ledger
from headrace.store.database import Database
from headrace.store.url import database_url
from tests.ledger.books import EDGE, Books, close, create_holder

from .conftest import Headrace, complaint


@pytest.fixture
async def served(tmp_path: Path) -> Books:
    """Two closed requests on 1 January 1970, one of each model."""
    database = Database.open(database_url(None, tmp_path / ".local/share/headrace"))
    books = Books(database, create_holder(database))
    ledger = Ledger(database, EDGE, now=lambda: 3600.0)
    await ledger.start()
    for model in ("large", "small"):
        charge = books.charge(model=model)
        await ledger.open(charge).committed()
        await close(ledger, charge.id)
    await ledger.stop()
    database.close()
    return books


def test_rows_are_headed_by_what_they_are_summed_by(headrace: Headrace, served: Books) -> None:
    sums = {"prompt_tokens": 5, "cached_tokens": 2, "completion_tokens": 7}
    rows = json.loads(headrace("usage", "--by", "model", "--json").stdout)
    assert rows == [{"model": name, "requests": 1, **sums} for name in ("large", "small")]
    (day,) = json.loads(headrace("usage", "--json").stdout)
    assert day == {"day": "1970-01-01", "requests": 2} | {n: 2 * c for n, c in sums.items()}


def test_limits(headrace: Headrace, served: Books) -> None:
    assert json.loads(headrace("usage", "--since", "7d", "--json").stdout) == []
    assert json.loads(headrace("usage", "--tenant", "nobody", "--json").stdout) == []
    assert len(json.loads(headrace("usage", "--since", "1970-01-01", "--json").stdout)) == 1


def test_for_people_it_is_a_table(headrace: Headrace, served: Books) -> None:
    head, line = headrace("usage", "--by", "tenant").stdout.splitlines()
    assert head.split()[:2] == ["TENANT", "REQUESTS"]
    assert line.split() == ["acme", "2", "10", "4", "14"]


def test_without_a_request_it_says_so(headrace: Headrace, tmp_path: Path) -> None:
    Database.open(database_url(None, tmp_path / ".local/share/headrace")).close()
    done = headrace("usage")
    assert (done.stdout, done.stderr, done.returncode) == ("", "no requests\n", 0)


def test_a_bad_date_is_one_line(headrace: Headrace) -> None:
    assert "--since: 'lately' is neither" in complaint(headrace("usage", "--since", "lately"))
