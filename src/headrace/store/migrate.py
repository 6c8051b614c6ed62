"""Bringing a database to the schema of this release."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from headrace.store.errors import StoreError
from headrace.store.schema import HEAD

_LOCK = 0x6865616472616365  # "headrace" in ASCII
_SCRIPTS = Path(__file__).with_name("migrations")


def revision(connection: Connection) -> str | None:
    """The last migration that the database has seen."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return found


def migrate(connection: Connection) -> None:
    """Apply what is missing. The connection is inside a write transaction, so that of several
    processes that start at once the first does it and the others find it done.

    Raises:
        StoreError: the database is of a newer release.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    before = revision(connection)
    if before == HEAD:
        return
    # Slow to import, and needed only by the first start of a release.
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    try:
        command.upgrade(config, HEAD)
    except CommandError as error:
        raise StoreError(
            f"the database is at revision {before}, which this release does not know "
            f"(its own is {HEAD}): a newer Headrace has used it"
        ) from error
