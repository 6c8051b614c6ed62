"""Charges in the database. Every function works inside the caller's write transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from uuid import UUID

from sqlalchemy import Connection, bindparam, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from headrace.ledger.charge import ClosedCharge, OpenCharge
from headrace.store.schema import charges

_INSERT = {
    dialect.__name__.rpartition(".")[2]: dialect.insert(charges).on_conflict_do_nothing()
    for dialect in (sqlite, postgresql)
}
_UNSETTLED = or_(charges.c.ending.is_(None), charges.c.ending == "interrupted")
_UPDATE = update(charges).where(charges.c.id == bindparam("charge_id"), _UNSETTLED)


@dataclass(frozen=True, slots=True)
class Entry:
    """A change to the books. moment: when it was true, in unix milliseconds."""

    charge: OpenCharge | ClosedCharge
    edge: UUID
    moment: int


def write_entries(connection: Connection, entries: Sequence[Entry]) -> set[UUID]:
    """Open and close charges; what was done before stays as it is. A charge that was taken for
    interrupted but is closed after all gets its true counts.

    Returns the charges that cannot be closed because they never were opened.
    """
    opened = [_opened(e) for e in entries if isinstance(e.charge, OpenCharge)]
    closed = [_closed(e) for e in entries if isinstance(e.charge, ClosedCharge)]
    if opened:
        connection.execute(_INSERT[connection.dialect.name], opened)
    if not closed or connection.execute(_UPDATE, closed).rowcount == len(closed):
        return set()
    ids = {e.charge.id for e in entries if isinstance(e.charge, ClosedCharge)}
    return ids - set(connection.scalars(select(charges.c.id).where(charges.c.id.in_(ids))))


def interrupt_open_charges(connection: Connection, edge: UUID, moment: int) -> int:
    """End what an edge left open when it died; how many there were."""
    is_open = charges.c.edge == edge, charges.c.ending.is_(None)
    return connection.execute(
        update(charges).where(*is_open).values(ending="interrupted", closed_at=moment)
    ).rowcount


def _opened(entry: Entry) -> dict[str, object]:
    values = {name: getattr(entry.charge, name) for name in _OPEN_FIELDS}
    return values | _NO_COUNTS | {"edge": entry.edge, "opened_at": entry.moment}


def _closed(entry: Entry) -> dict[str, object]:
    values = {name: getattr(entry.charge, name) for name in _CLOSED_FIELDS}
    return values | {"charge_id": values.pop("id"), "closed_at": entry.moment}


_OPEN_FIELDS = [field.name for field in fields(OpenCharge)]
_CLOSED_FIELDS = [field.name for field in fields(ClosedCharge)]
_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")
_NO_COUNTS = dict.fromkeys(_COUNTS, 0)
