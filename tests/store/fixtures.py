"""Databases to test on: SQLite always, PostgreSQL where the machine has it."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL, create_engine, text

from headrace.store.database import Database
from headrace.store.url import database_url


@pytest.fixture(scope="session")
def postgresql() -> Iterator[URL]:
    """A server of our own on a Unix socket, as a user that is not root, without durability."""
    initdb, pg_ctl = shutil.which("initdb"), shutil.which("pg_ctl")
    if initdb is None or pg_ctl is None:
        pytest.skip("PostgreSQL is not installed")
    # Not in pytest's folder: the path of a socket may have no more than 107 bytes.
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        user = "nobody" if os.geteuid() == 0 else None
        if user:
            shutil.chown(folder, user)

        def run(*command: str) -> None:
            quiet = subprocess.DEVNULL
            subprocess.run(command, check=True, user=user, cwd=folder, stdout=quiet)

        server = ["-D", f"{folder}/data"]
        run(initdb, *server, "-U", "headrace", "-A", "trust", "-E", "UTF8", "--no-sync")
        options = f"-k {folder} -c listen_addresses= -c fsync=off"
        run(pg_ctl, "start", "-w", *server, "-o", options, "-l", f"{folder}/log")
        try:
            yield URL.create("postgresql+psycopg", "headrace", query={"host": folder})
        finally:
            run(pg_ctl, "stop", "-m", "immediate", *server)


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> URL:
    """A database of each kind that nobody has used."""
    if request.param == "sqlite":
        return database_url(None, tmp_path)
    return _create_database(request.getfixturevalue("postgresql"))


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("migrated")
    Database.open(database_url(None, folder)).close()
    return folder / "headrace.db"


@pytest.fixture(scope="session")
def migrated_postgresql(postgresql: URL) -> URL:
    url = _create_database(postgresql)
    Database.open(url).close()
    return url


@pytest.fixture
def sqlite_url(migrated_sqlite: Path, tmp_path: Path) -> URL:
    """A migrated SQLite database in the test's folder, which may serve as a data directory."""
    shutil.copy(migrated_sqlite, tmp_path)
    return database_url(None, tmp_path)


@pytest.fixture
def sqlite(sqlite_url: URL) -> Iterator[Database]:
    database = Database.open(sqlite_url)
    yield database
    database.close()


@pytest.fixture
def postgresql_url(migrated_postgresql: URL) -> URL:
    """A migrated PostgreSQL database of the test's own."""
    return _create_database(migrated_postgresql, template=str(migrated_postgresql.database))


@pytest.fixture
def postgresql_database(postgresql_url: URL) -> Iterator[Database]:
    database = Database.open(postgresql_url)
    yield database
    database.close()


@pytest.fixture(params=["sqlite", "postgresql_database"], ids=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Database:
    """A migrated database of each kind."""
    found: Database = request.getfixturevalue(request.param)
    return found


def _create_database(server: URL, template: str = "template0") -> URL:
    name = f"test_{secrets.token_hex(6)}"
    engine = create_engine(server.set(database="postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
    engine.dispose()
    return server.set(database=name)
