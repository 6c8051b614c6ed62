"""Bringing a database to the schema of this release."""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Step:
    """A migration. title: what it brings, in one sentence."""

    id: str
    title: str


def pending(connection: Connection) -> list[Step]:
    """The migrations that are missing, in their order.

    Raises:
        StoreError: the database is of a newer release.
    """
    found = revision(connection)
    if found == HEAD:
        return []
    from alembic.script import ScriptDirectory

    steps = [Step(s.revision, s.doc) for s in ScriptDirectory(str(_SCRIPTS)).walk_revisions()]
    known = [step.id for step in steps]  # the last one first
    if found is not None and found not in known:
        raise _newer(found)
    return steps[: known.index(found) if found else None][::-1]


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
        raise _newer(before) from error


def _newer(found: str | None) -> StoreError:
    return StoreError(
        f"the database is at revision {found}, which this release does not know "
        f"(its own is {HEAD}): a newer Headrace has used it"
    )
