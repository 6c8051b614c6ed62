"""A database and the transactions on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DatabaseError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from headrace.extras import how_to_install
from headrace.store.direct import DirectConnection
from headrace.store.errors import DatabaseDamaged, StoreError, reason, unavailable
from headrace.store.files import create_private_file, make_private_files
from headrace.store.lane import Lane
from headrace.store.migrate import migrate, revision
from headrace.store.notices import notices, take_told
from headrace.store.same_file import SameFile
from headrace.store.schema import HEAD

THREADS = 4
LOCK_SECONDS = 5.0
"""How long SQLite waits for another process's transaction to end."""

WAL_PAGES = 16_384
"""Pages of 4 KiB after which SQLite moves its log into the database, within the transaction that is
unlucky: it waits for the disk. At 1,000, SQLite's own, that was every hundredth request."""

T = TypeVar("T")


class Database:
    """Runs transactions, on the calling thread or on threads of its own.

    The drivers are the blocking ones: a whole transaction then costs an event loop one trip to
    a thread, where an asynchronous driver makes one for every statement.

    SQLite runs in WAL mode with synchronous=NORMAL. What was committed survives the death of
    the process at any moment; a power failure may take the last moments before it, never the
    consistency. PostgreSQL promises what its own synchronous_commit says.
    """

    def __init__(self, engine: Engine, check_file: Callable[[], object] = lambda: None) -> None:
        """check_file: raises DatabaseReplaced where the file is another one."""
        self._engine = engine
        self._check_file = check_file
        self._lanes: list[Lane] = []
        self._common = self.lane("database", THREADS)
        self._listeners: defaultdict[str, list[Callable[[], object]]] = defaultdict(list)

    @classmethod
    def connect(cls, url: URL, *, lock_seconds: float = LOCK_SECONDS) -> Database:
        """Whatever its schema. Raises StoreError: its driver is not installed."""
        if url.drivername == "sqlite":
            engine = _sqlite(url, lock_seconds)
            return cls(engine, SameFile(Path(str(url.database))).check)
        return cls(_postgresql(url))

    @classmethod
    def open(
        cls, url: URL, *, lock_seconds: float = LOCK_SECONDS, may_migrate: bool = True
    ) -> Database:
        """Connect, and migrate if need be.

        Raises:
            DatabaseUnavailable: it cannot be reached.
            StoreError: it is of a newer release, or of an older one and may not be migrated, or
                its driver is not installed.
        """
        database = cls.connect(url, lock_seconds=lock_seconds)
        try:
            database.bring_up_to_date(may_migrate=may_migrate)
        except BaseException:
            database.close()
            raise
        return database

    def bring_up_to_date(self, *, may_migrate: bool = True) -> None:
        """Migrate if need be. Raises as `open`."""
        try:
            with self.transaction() as connection:
                found = revision(connection)
            if found != HEAD and may_migrate:
                with self.transaction(write=True) as connection:
                    migrate(connection)
            elif found != HEAD:
                raise StoreError(
                    f"the database is at revision {found}, this release needs {HEAD} and "
                    "auto_migrate is off: run headrace migrate"
                )
        except (DatabaseError, DatabaseDamaged) as error:
            raise StoreError(f"{self._engine.url!r} is not usable: {reason(error)}") from error

    @property
    def dialect(self) -> str:
        """ "sqlite" or "postgresql"."""
        return self._engine.dialect.name

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[Connection]:
        """A transaction: committed at the end of the block, undone if it raises.

        write: whether it may change something. Such transactions come one after another on
        SQLite, so that none fails half-way because another was faster.

        Raises:
            DatabaseUnavailable: locked, full, damaged, down or out of reach.
        """
        told: set[str] = set()
        self._check_file()
        try:
            with self._engine.connect() as connection:
                connection.execution_options(headrace_write=write)
                try:
                    with connection.begin():
                        yield connection
                finally:
                    told = take_told(connection)
        except (DBAPIError, PoolTimeout) as error:
            fault = unavailable(error, self._engine.dialect.loaded_dbapi)
            if fault is None:
                raise
            if isinstance(fault, DatabaseDamaged):
                self._engine.dispose()  # connections remember parts of the file as it was
            raise fault from error
        for channel in told:
            for hear in tuple(self._listeners[channel]):
                hear()

    @contextmanager
    def listening(self, channel: str, hear: Callable[[], object]) -> Iterator[None]:
        """Within the block, call `hear` after every transaction of this object that told something
        on the channel, on the thread that it ran on."""
        self._listeners[channel].append(hear)
        try:
            yield
        finally:
            self._listeners[channel].remove(hear)

    def notices(self, channel: str) -> AsyncIterator[None]:
        """PostgreSQL: what any process tells, see `store.notices.notices`."""
        return notices(self._engine, channel)

    async def run(self, work: Callable[[Connection], T], *, write: bool = False) -> T:
        """`work` in a transaction on one of the common threads, see `Lane.run`."""
        return await self._common.run(work, write=write)

    def lane(self, name: str, threads: int) -> Lane:
        """Threads apart from the common ones, which end with this object."""
        lane = Lane(lambda write: self.transaction(write=write), name, threads)
        self._lanes.append(lane)
        return lane

    def direct(self) -> DirectConnection:
        """A connection of the caller's own, who closes it."""
        return DirectConnection(self._engine, self._check_file)

    def close(self) -> None:
        """Wait for what runs, then disconnect."""
        for lane in self._lanes:
            lane.close()
        self._engine.dispose()


def _sqlite(url: URL, lock_seconds: float) -> Engine:
    path = Path(str(url.database))
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    create_private_file(path)  # SQLite gives the files beside it the same mode
    make_private_files(path, *(path.with_name(path.name + end) for end in ("-wal", "-shm")))
    engine = create_engine(url, connect_args={"timeout": lock_seconds})

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: object) -> None:
        connection.isolation_level = None  # transactions begin where `begin` says, DDL included
        if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            connection.execute("PRAGMA journal_mode = wal")
        connection.execute("PRAGMA synchronous = normal")
        connection.execute("PRAGMA foreign_keys = on")
        connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        write = connection.get_execution_options().get("headrace_write")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine


def _postgresql(url: URL) -> Engine:
    try:
        return create_engine(
            url, pool_pre_ping=True, paramstyle="format", connect_args={"connect_timeout": 5}
        )
    except ModuleNotFoundError as error:
        raise StoreError(
            f"PostgreSQL needs the module {error.name}: {how_to_install('postgres')}"
        ) from error
