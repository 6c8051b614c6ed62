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
