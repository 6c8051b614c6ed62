"""A driver's connection in the hands of one thread, for small transactions that come often."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from sqlalchemy import Dialect, Engine, Insert, Update

from headrace.store.errors import unavailable

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

    def __init__(self, engine: Engine, check_file: Callable[[], object]) -> None:
        self._engine = engine
        self._check_file = check_file
        self._pool = engine.pool.recreate()  # an empty one, so that each connection is new
        self._cursor: Any = None

    @property
    def dialect(self) -> Dialect:
        return self._engine.dialect

    def write(self, changes: Sequence[tuple[Statement, Sequence[Row]]]) -> int:
        """Make changes in one transaction; how many rows the last of them met.

        Raises:
            DatabaseUnavailable: locked, full, damaged, down or out of reach.
        """
        with self._faults_told():
            return self._write(changes)

    def probe(self, statements: Sequence[str]) -> None:
        """Run statements in one writing transaction, over a new connection, which remembers
        nothing of what the database was. Raises as `write`."""
        self.close()
        with self._faults_told():
            cursor = self._connect()
            cursor.execute(self._begin)
            for statement in statements:
                cursor.execute(statement)
            cursor.execute("COMMIT")

    @contextlib.contextmanager
    def _faults_told(self) -> Iterator[None]:
        try:
            self._check_file()
            yield
        except BaseException as error:
            self.close()
            fault = unavailable(error, self.dialect.loaded_dbapi)
            if fault is None:
                raise
            raise fault from error

    @property
    def _begin(self) -> str:
        return "BEGIN IMMEDIATE" if self.dialect.name == "sqlite" else "BEGIN"

    def _write(self, changes: Sequence[tuple[Statement, Sequence[Row]]]) -> int:
        cursor = self._cursor or self._connect()
        (statement, rows), *more = changes
        if len(rows) == 1 and not more:  # a transaction by itself
            cursor.execute(statement.sql, rows[0])
            return int(cursor.rowcount)
        cursor.execute(self._begin)
        for statement, rows in changes:
            cursor.executemany(statement.sql, rows)
        met = int(cursor.rowcount)
        cursor.execute("COMMIT")
        return met

    def _connect(self) -> Any:
        pooled = self._pool.connect()
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
