"""The number of changes so far, and what the latest ones were about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from sqlalchemy import Connection, Select, delete, insert, select, update

from headrace.store.notices import tell
from headrace.store.schema import changes, counters

CHANNEL = "headrace_registry"
"""Every change is announced here as soon as it is committed."""

KEPT = 1000
"""Changes whose rows are kept. A process that missed more must forget everything."""

_NAME = "registry"


class Change(NamedTuple):
    """What a change was about. name: the id of a key, or the name of a tenant or of a model with
    a new price. Everybody's aliases concern all tenants, so they are "everything"."""

    kind: Literal["key", "tenant", "price", "everything"]
    name: str = ""


EVERYTHING = Change("everything")


def revision(connection: Connection) -> int:
    """A number that every change to tenants, keys, aliases, pins and prices raises."""
    return connection.scalars(_query()).one()


def changes_since(connection: Connection, known: int) -> tuple[int, Sequence[Change]]:
    """The present number, and what changed after the number `known`.

    The answer is EVERYTHING where that cannot be told: more than KEPT changes ago, after changes
    by a release that wrote no rows, or in a database that was restored.
    """
    found = revision(connection)
    if found == known:
        return found, ()
    query = select(changes.c.kind, changes.c.name).where(changes.c.revision > known)
    rows = connection.execute(query.order_by(changes.c.revision).limit(KEPT + 1)).all()
    if len(rows) != found - known:
        return found, (EVERYTHING,)
    return found, [Change(*row) for row in rows]


def lock_registry(connection: Connection) -> None:
    """Let no other process change anything until the transaction ends. On SQLite a write
    transaction has that already."""
    connection.execute(_query().with_for_update())


def begin_change(connection: Connection, change: Change) -> None:
    """Every change calls this first. It locks as `lock_registry` does, and notes what the change
    is about, so that listening processes forget that and nothing else. They hear of the change
    when it is committed. On PostgreSQL a change that cannot be announced is not committed."""
    raised = counters.c.value + 1
    connection.execute(update(counters).where(counters.c.name == _NAME).values(value=raised))
    number = revision(connection)
    connection.execute(insert(changes).values(revision=number, kind=change.kind, name=change.name))
    connection.execute(delete(changes).where(changes.c.revision <= number - KEPT))
    tell(connection, CHANNEL)


def _query() -> Select[int]:
    return select(counters.c.value).where(counters.c.name == _NAME)
