"""The number of changes so far, by which those who remember know when to forget."""

from __future__ import annotations

from sqlalchemy import Connection, Select, select, update

from headrace.store.notices import tell
from headrace.store.schema import counters

CHANNEL = "headrace_registry"
"""Where every change is told as soon as it is committed."""

_NAME = "registry"


def revision(connection: Connection) -> int:
    """A number that every change to tenants, keys, aliases, pins and prices raises."""
    return connection.scalars(_query()).one()


def lock_registry(connection: Connection) -> None:
    """Let no other process change anything until the transaction ends. On SQLite a write
    transaction has that already."""
    connection.execute(_query().with_for_update())


def begin_change(connection: Connection) -> None:
    """What every change does first: it locks, as `lock_registry`, and will be told to all who
    listen when it is committed. On PostgreSQL a change that cannot be told is not committed."""
    raised = counters.c.value + 1
    connection.execute(update(counters).where(counters.c.name == _NAME).values(value=raised))
    tell(connection, CHANNEL)


def _query() -> Select[int]:
    return select(counters.c.value).where(counters.c.name == _NAME)
