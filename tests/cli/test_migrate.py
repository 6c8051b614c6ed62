"""`headrace migrate` as processes."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from headrace.store.schema import HEAD

from .conftest import Headrace, complaint


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / ".local/share/headrace/headrace.db"


def test_it_says_what_is_missing_does_it_and_finds_it_done(headrace: Headrace, file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.touch(mode=0o600)
    checked = headrace("migrate", "--check", "--json")
    assert checked.returncode == 1
    told = json.loads(checked.stdout)
    assert (told["before"], told["after"]) == (None, None)
    done = json.loads(headrace("migrate", "--json").stdout)
    assert (done["before"], done["after"]) == (None, HEAD)
    assert done["applied"] == told["missing"]
    assert done["applied"][0] == "0001: Tenants, keys and charges."
    again = headrace("migrate", "--check", "--json")
    assert again.returncode == 0
    assert json.loads(again.stdout)["missing"] == []


def test_where_it_is_not_automatic_an_older_schema_is_one_line(
    headrace: Headrace, file: Path
) -> None:
    file.parent.mkdir(parents=True)
    file.touch(mode=0o600)
    line = complaint(headrace("keys", "list", HEADRACE_AUTO_MIGRATE="false"))
    assert "run headrace migrate" in line
    assert headrace("migrate").returncode == 0
    assert headrace("keys", "list", HEADRACE_AUTO_MIGRATE="false").returncode == 0


def test_a_newer_schema_is_one_line(headrace: Headrace, file: Path) -> None:
    headrace("migrate")
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    for flags in ([], ["--check"]):
        assert "a newer Headrace has used it" in complaint(headrace("migrate", *flags))
