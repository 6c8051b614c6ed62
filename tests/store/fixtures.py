"""Databases to test on: SQLite and PostgreSQL."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL, create_engine, text

from headrace.store.database import Database
from headrace.store.url import database_url
from tests.servers.postgresql import PostgresServer


@pytest.fixture(scope="session")
def postgresql() -> Iterator[URL]:
    """A server that all tests share, each with a database of its own."""
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        server = PostgresServer(Path(folder))
        server.start()
        try:
            yield server.url
        finally:
            server.kill()


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
