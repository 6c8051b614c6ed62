"""Statements on a driver's own connection: as true as SQLAlchemy's, and as safe."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from msgspec import Struct, field
from sqlalchemy import URL, bindparam, insert, select, text, update

from headrace.store.database import Database
from headrace.store.direct import Statement
from headrace.store.errors import DatabaseUnavailable
from headrace.store.ids import uuid7
from headrace.store.schema import tenants

COLUMNS = ("id", "name", "created_at", "enabled", "models")
INSERT = insert(tenants).values({name: bindparam(name) for name in COLUMNS})
RENAME = update(tenants).where(tenants.c.name == bindparam("old")).values(name=bindparam("name"))
PATHS = {
    "id": "id",
    "name": "who.name",
    "old": "who.former",
    "created_at": "moment",
    "enabled": "enabled",
    "models": "models",
}


class Name(Struct):
    name: str
    former: str = ""


class Tenant(Struct):
    who: Name
    moment: int = 1
    enabled: bool = True
    models: str | None = None
    id: UUID = field(default_factory=uuid7)


def tenant(name: str, former: str = "") -> Tenant:
    return Tenant(Name(name, former))


class Desk:
    """A direct connection with statements for tenants."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.connection = database.direct()
        self._insert = Statement(INSERT, self.connection.dialect, PATHS)
        self._rename = Statement(RENAME, self.connection.dialect, PATHS)

    def add(self, *added: Tenant) -> int:
        return self.connection.write([(self._insert, [self._insert.row(t) for t in added])])

    def add_and_rename(self, added: Tenant, *renamed: Tenant) -> int:
        renaming = self._rename, [self._rename.row(t) for t in renamed]
        return self.connection.write([(self._insert, [self._insert.row(added)]), renaming])

    def names(self) -> list[str]:
        with self.database.transaction() as connection:
            return list(connection.scalars(select(tenants.c.name).order_by(tenants.c.name)))


@pytest.fixture
def desk(database: Database) -> Iterator[Desk]:
    desk = Desk(database)
    yield desk
    desk.connection.close()


def test_rows_are_what_sqlalchemy_would_have_written(desk: Desk) -> None:
    added = [tenant("acme"), Tenant(Name("other"), 2**62, False, '["smollm2"]')]
    assert desk.add(*added) == 2
    with desk.database.transaction() as connection:
        columns = [tenants.c[name] for name in COLUMNS]
        rows = connection.execute(select(*columns).order_by(tenants.c.name)).all()
    assert [tuple(row) for row in rows] == [
        (t.id, t.who.name, t.moment, t.enabled, t.models) for t in added
    ]


def test_it_tells_how_many_rows_the_last_change_met(desk: Desk) -> None:
    assert desk.add(tenant("a")) == 1
    changed = tenant("A", former="a"), tenant("B", former="b"), tenant("C", former="c")
    assert desk.add_and_rename(tenant("b"), *changed) == 2
    assert desk.names() == ["A", "B"]


def test_a_transaction_that_fails_is_undone_and_holds_nobody_up(desk: Desk) -> None:
    desk.add(tenant("acme"))
    refused = sqlite3.IntegrityError, psycopg.IntegrityError
    with pytest.raises(refused) as caught:
        desk.add(tenant("other"), tenant("acme"))
    with pytest.raises(refused):
        desk.add(tenant("acme"))
    with desk.database.transaction(write=True) as connection:
        connection.execute(update(tenants).values(name="renamed"))
    desk.add(tenant("third"))
    assert desk.names() == ["renamed", "third"]
    assert caught.tb is not None  # whose frames still refer to what failed


def test_a_lock_held_elsewhere_makes_it_unavailable(sqlite_url: URL) -> None:
    desk = Desk(Database.open(sqlite_url, lock_seconds=0.01))
    other = sqlite3.connect(str(sqlite_url.database), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for added in ([tenant("a")], [tenant("a"), tenant("b")]):
        with pytest.raises(DatabaseUnavailable, match="locked"):
            desk.add(*added)
    other.execute("ROLLBACK")
    other.close()
    desk.add(tenant("a"), tenant("b"))
    assert desk.names() == ["a", "b"]
    desk.connection.close()
    desk.database.close()


def test_a_connection_that_the_server_ended_makes_it_unavailable_once(
    postgresql_database: Database,
) -> None:
    desk = Desk(postgresql_database)
    desk.add(tenant("a"))
    with postgresql_database.transaction() as connection:
        others = "FROM pg_stat_activity WHERE datname = current_database()"
        mine = "AND pid <> pg_backend_pid()"
        connection.execute(text(f"SELECT pg_terminate_backend(pid, 5000) {others} {mine}"))
    with pytest.raises(DatabaseUnavailable, match=r"terminating|closed"):
        desk.add(tenant("b"))
    desk.add(tenant("b"))
    assert desk.names() == ["a", "b"]
    desk.connection.close()


def test_a_quiet_moment_brings_the_log_into_the_database(sqlite: Database, sqlite_url: URL) -> None:
    desk = Desk(sqlite)
    desk.connection.tidy()
    file = Path(str(sqlite_url.database))
    desk.add(tenant("acme"))
    assert b"acme" not in file.read_bytes()
    desk.connection.tidy()
    assert b"acme" in file.read_bytes()
    desk.connection.close()
