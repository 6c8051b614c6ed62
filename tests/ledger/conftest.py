from __future__ import annotations

import pytest

from headrace.store.database import Database

from .books import Books, create_holder


@pytest.fixture
def books(database: Database) -> Books:
    return Books(database, create_holder(database))


@pytest.fixture
def sqlite_books(sqlite: Database) -> Books:
    return Books(sqlite, create_holder(sqlite))
