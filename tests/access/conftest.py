from tests.store.fixtures import (  # noqa: F401
    database,
    migrated_postgresql,
    migrated_sqlite,
    postgresql,
    sqlite,
    sqlite_url,
)
