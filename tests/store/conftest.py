from tests.store.fixtures import (  # noqa: F401
    database,
    empty_url,
    migrated_postgresql,
    migrated_sqlite,
    postgresql,
    postgresql_database,
    postgresql_url,
    sqlite,
    sqlite_url,
)
