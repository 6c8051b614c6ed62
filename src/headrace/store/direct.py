"""A driver's connection in the hands of one thread, for small transactions that come often."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from sqlalchemy import Dialect, Engine, Insert, Update
from sqlalchemy.exc import TimeoutError as PoolTimeout

from headrace.store.errors import DatabaseUnavailable, reason

Row = Sequence[Any]


class Statement:
    """A change of one row, compiled once.

    paths: where the value of each parameter is in the object that a row is made of, as
    `operator.attrgetter` takes it.
    """

    def __init__(self, change: Insert | Update, dialect: Dialect, paths: Mapping[str, str]) -> None:
        compiled = change.compile(dialect=dialect)
        names = compiled.positiontup or []
        converters = (
            compiled.binds[name].type.dialect_impl(dialect).bind_processor(dialect)
            for name in names
        )
        self.sql = str(compiled)
        self._values = attrgetter(*(paths[name] for name in names))
        self._converters = [(at, convert) for at, convert in enumerate(converters) if convert]

    def row(self, source: object) -> Row:
        """Its parameters, as the driver takes them."""
        values = list(self._values(source))
        for at, convert in self._converters:
            values[at] = convert(values[at])
        return values


class DirectConnection:
    """Runs statements without a pool and without SQLAlchemy's layers, which together take several
    times as long as SQLite takes for a row.

    It connects when it is first used. Whatever fails ends the connection and undoes the
    transaction; the next one gets a fresh connection.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._cursor: Any = None

    @property
    def dialect(self) -> Dialect:
        return self._engine.dialect

    def write(self, changes: Sequence[tuple[Statement, Sequence[Row]]]) -> int:
        """Make changes in one transaction; how many rows the last of them met.

        Raises:
            DatabaseUnavailable: locked, full, down or out of reach.
        """
        try:
            return self._write(changes)
        except BaseException as error:
            self.close()
            driver = self.dialect.loaded_dbapi
            if isinstance(error, (driver.OperationalError, driver.InterfaceError, PoolTimeout)):
                raise DatabaseUnavailable(reason(error)) from error
            raise

    def _write(self, changes: Sequence[tuple[Statement, Sequence[Row]]]) -> int:
        cursor = self._cursor or self._connect()
        (statement, rows), *more = changes
        if len(rows) == 1 and not more:  # a transaction by itself
            cursor.execute(statement.sql, rows[0])
            return int(cursor.rowcount)
        cursor.execute("BEGIN IMMEDIATE" if self.dialect.name == "sqlite" else "BEGIN")
        for statement, rows in changes:
            cursor.executemany(statement.sql, rows)
        met = int(cursor.rowcount)
        cursor.execute("COMMIT")
        return met

    def _connect(self) -> Any:
        pooled = self._engine.raw_connection()
        connection: Any = pooled.driver_connection
        pooled.detach()
        if self.dialect.name == "postgresql":
            connection.autocommit = True  # as SQLite's are: transactions begin by "BEGIN"
        self._cursor = connection.cursor()
        return self._cursor

    def tidy(self) -> None:
        """For a quiet moment: SQLite brings its log to the disk and into the database, as far as
        nobody holds it up."""
        if self._cursor is not None and self.dialect.name == "sqlite":
            try:
                self._cursor.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            except self.dialect.loaded_dbapi.Error:
                self.close()

    def close(self) -> None:
        """Disconnect."""
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            error = self.dialect.loaded_dbapi.Error
            with contextlib.suppress(error), contextlib.closing(cursor.connection) as connection:
                connection.rollback()  # SQLite's lives on while anything refers to its statements
