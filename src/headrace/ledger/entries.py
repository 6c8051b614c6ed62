"""Charges in the database."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Insert,
    bindparam,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from headrace.ledger.charge import ClosedCharge, OpenCharge
from headrace.store.database import Database
from headrace.store.direct import Statement
from headrace.store.schema import charges


class Entry(msgspec.Struct, frozen=True):
    """A change to the books. moment: when it was true, in unix milliseconds."""

    charge: OpenCharge | ClosedCharge
    edge: UUID
    moment: int


class Whole(NamedTuple):
    """A charge that was opened and closed before it was written."""

    opening: Entry
    closing: Entry


class Journal:
    """Writes entries, over a connection of its own, for one thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection = database.direct()
        dialect = self._connection.dialect
        self._open = Statement(_insert(dialect.name), dialect, _PATHS)
        self._close = Statement(_UPDATE, dialect, _PATHS)
        self._whole = Statement(_upsert(dialect.name), dialect, _WHOLE_PATHS)

    def write(self, entries: Sequence[Entry]) -> Set[UUID]:
        """Open and close charges in one transaction; what was done before stays as it is. A
        charge that was taken for interrupted but is closed after all gets its true counts.

        Returns the charges that cannot be closed because they never were opened.

        Raises:
            DatabaseUnavailable: nothing was written, or nobody knows; to do it again is safe.
        """
        opened: dict[UUID, Entry] = {}
        closed: list[Entry] = []
        whole: list[Whole] = []
        for entry in entries:
            if type(entry.charge) is OpenCharge:
                opened.setdefault(entry.charge.id, entry)
            elif opening := opened.pop(entry.charge.id, None):
                whole.append(Whole(opening, entry))
            else:
                closed.append(entry)
        changes = [
            (statement, [statement.row(source) for source in sources])
            for statement, sources in (
                (self._whole, whole),
                (self._open, opened.values()),
                (self._close, closed),
            )
            if sources
        ]
        met = self._connection.write(changes)
        if not closed or met == len(closed):
            return frozenset()
        return self._unknown({entry.charge.id for entry in closed})

    def _unknown(self, ids: Set[UUID]) -> Set[UUID]:
        with self._database.transaction() as connection:
            found = connection.scalars(select(charges.c.id).where(charges.c.id.in_(ids)))
            return ids - set(found)

    def probe(self) -> None:
        """Read and write a little, to know whether that works. Raises DatabaseUnavailable."""
        self._connection.probe(_PROBE)

    def tidy(self) -> None:
        """For quiet moments, see `store.direct`."""
        self._connection.tidy()

    def close(self) -> None:
        self._connection.close()


def interrupt_open_charges(connection: Connection, edge: UUID, moment: int) -> int:
    """End what an edge left open when it died; how many there were."""
    is_open = charges.c.edge == edge, charges.c.ending.is_(None)
    return connection.execute(
        update(charges).where(*is_open).values(ending="interrupted", closed_at=moment)
    ).rowcount


_PROBE = (
    "SELECT opened_at FROM charges ORDER BY opened_at DESC LIMIT 1",
    # A number that grows: SQLite writes nothing where a value stays the same.
    "INSERT INTO counters (name, value) VALUES ('probe', 1)"
    " ON CONFLICT (name) DO UPDATE SET value = counters.value + 1",
)

_OPEN, _CLOSED = OpenCharge.__struct_fields__, ClosedCharge.__struct_fields__
_PATHS = {name: f"charge.{name}" for name in (*_OPEN, *_CLOSED)}
_PATHS |= {"charge_id": "charge.id", "edge": "edge", "opened_at": "moment", "closed_at": "moment"}
_IS_CLOSING = ("closed_at", *(name for name in _CLOSED if name != "id"))
_WHOLE_PATHS = {
    name: f"{'closing' if name in _IS_CLOSING else 'opening'}.{path}"
    for name, path in _PATHS.items()
}

_INSERTS: dict[str, type[sqlite.Insert] | type[postgresql.Insert]] = {
    "sqlite": sqlite.Insert,
    "postgresql": postgresql.Insert,
}
_Values = dict[str, ColumnElement[Any]]
_NOTHING: _Values = {
    name: literal_column("0")
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")
}
_OPENING: _Values = {name: bindparam(name) for name in (*_OPEN, "edge", "opened_at")}
_CLOSING: _Values = {name: bindparam(name) for name in _IS_CLOSING}
_UNSETTLED = or_(charges.c.ending.is_(None), charges.c.ending == literal_column("'interrupted'"))

_UPDATE = update(charges).where(charges.c.id == bindparam("charge_id"), _UNSETTLED).values(_CLOSING)


def _insert(dialect: str) -> Insert:
    """Opens a charge."""
    return _INSERTS[dialect](charges).values(_NOTHING | _OPENING).on_conflict_do_nothing()


def _upsert(dialect: str) -> Insert:
    """Opens a charge and closes it."""
    insert = _INSERTS[dialect](charges).values(_OPENING | _CLOSING)
    return insert.on_conflict_do_update(
        index_elements=[charges.c.id],
        set_={name: insert.excluded[name] for name in _IS_CLOSING},
        where=_UNSETTLED,
    )
