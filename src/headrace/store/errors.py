"""What can be wrong with the database."""

from __future__ import annotations

from sqlite3 import SQLITE_CORRUPT, SQLITE_FULL, SQLITE_IOERR, SQLITE_NOTADB
from typing import Any

from sqlalchemy.exc import TimeoutError as PoolTimeout

_DISK_FULL, _DAMAGED, _NO_TABLE = "53100", "XX", "42P01"  # PostgreSQL's SQLSTATE codes
_NO_RIGHTS = ("42501", "25006")  # taken away, or a standby that takes no writes


class StoreError(Exception):
    """The database cannot be used as it is; the message says why, without a password."""


class DatabaseUnavailable(StoreError):
    """The database is locked, down or out of reach; the same may work later.

    brief: what callers are told, who must not learn addresses. advice: what the operator can do.
    """

    brief = "the database cannot be reached"
    advice = "see that the database runs and can be reached; the service goes on by itself"


class DatabaseFull(DatabaseUnavailable):
    """There is no room for what should be written."""

    brief = "the database's disk is full"
    advice = "free space on the disk of the database; the service goes on by itself"


class DiskFails(DatabaseUnavailable):
    """The disk of the database gives errors, or a limit on the size of files stops it."""

    brief = "the database's disk fails"
    advice = "see the kernel's log, the disk, and limits on the size of files (ulimit -f)"


class DatabaseDamaged(DatabaseUnavailable):
    """What is stored cannot be read as a database, or a table is missing."""

    brief = "the database is damaged"
    advice = "stop the service, restore the database from the backup, and start again"


class DatabaseReplaced(DatabaseUnavailable):
    """The file of the database is not the one that was opened."""

    brief = "the database's file was removed or replaced"
    advice = "put the former file back, or restart the service with the present one"


class TooManyReports(StoreError):
    """So many reports of one caller wait that no more are taken."""


class ReportTooLong(StoreError):
    """A report took longer than it may; a smaller one may work."""


def unavailable(error: BaseException, driver: Any) -> DatabaseUnavailable | None:
    """What a driver's error, or SQLAlchemy's around it, says of the database; None if it is about
    the statement or its values. driver: the module that it comes from."""
    cause = getattr(error, "orig", None) or error
    if not isinstance(cause, driver.Error):
        return DatabaseUnavailable(str(error)) if isinstance(error, PoolTimeout) else None
    told = reason(cause)
    sqlite = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    state = getattr(cause, "sqlstate", None) or ""
    if sqlite == SQLITE_FULL or state == _DISK_FULL:
        return DatabaseFull(told)
    if sqlite == SQLITE_IOERR:
        return DiskFails(told)
    damaged = sqlite in (SQLITE_CORRUPT, SQLITE_NOTADB) or "no such table" in told
    if damaged or state.startswith(_DAMAGED) or state == _NO_TABLE:
        return DatabaseDamaged(told)
    if state in _NO_RIGHTS or isinstance(cause, (driver.OperationalError, driver.InterfaceError)):
        return DatabaseUnavailable(told)
    return None


def reason(error: BaseException) -> str:
    """What the driver says, without the statement and its values."""
    cause = getattr(error, "orig", None) or error
    return str(cause).strip().partition("\n")[0] or type(cause).__name__
