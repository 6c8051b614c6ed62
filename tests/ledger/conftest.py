from __future__ import annotations

import pytest

from headrace.store.database import Database
from tests.store.fixtures import (  # noqa: F401
    database,
    migrated_postgresql,
    migrated_sqlite,
    postgresql,
    postgresql_database,
    postgresql_url,
    sqlite,
    sqlite_url,
)

from .books import Books, create_holder


@pytest.fixture
def books(database: Database) -> Books:  # noqa: F811
    return Books(database, create_holder(database))


@pytest.fixture
def sqlite_books(sqlite: Database) -> Books:  # noqa: F811
    return Books(sqlite, create_holder(sqlite))
