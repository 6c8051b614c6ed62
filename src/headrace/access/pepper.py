"""The pepper of an installation, held against what its database says of it."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

from sqlalchemy import Connection, delete, insert, select

from headrace.access.audit import record
from headrace.access.errors import AccessError
from headrace.access.keys import end_all_secrets
from headrace.access.revision import EVERYTHING, begin_change, lock_registry
from headrace.store.database import Database
from headrace.store.errors import StoreError
from headrace.store.files import find_pepper, make_pepper, pepper_path
from headrace.store.schema import installation, keys

_NAME = "pepper_check"
_ADVICE = (
    "from the backup, or copy it from another service on this database. If it is lost for good: "
    "headrace keys replace-pepper"
)
_CHECKED = b"headrace: is this the pepper that the keys of this database were hashed with?"


class WrongPepper(StoreError):
    """The pepper is missing, or another than the one that the database's keys were made with."""


def open_pepper(database: Database, data_dir: Path) -> bytes:
    """The pepper in the data directory. It is made with the first use of a database, which then
    keeps a check value of it: its HMAC of a fixed text, which tells nothing of the pepper.

    A database of an older release has keys and no check value. The first pepper that is used with
    it counts.

    Raises:
        WrongPepper
        StoreError: the file is damaged.
        DatabaseUnavailable
    """
    found = find_pepper(data_dir)
    with database.transaction() as connection:
        if found is not None and _stored(connection) == _check_of(found):
            return found
    with database.transaction(write=True) as connection:
        lock_registry(connection)
        stored = _stored(connection)
        if found is None:
            if stored is not None or _has_keys(connection):
                raise _missing(data_dir)
            found = make_pepper(data_dir)
        if stored is None:
            _store(connection, found)
        elif stored != _check_of(found):
            raise _wrong(data_dir)
    return found


def replace_pepper(database: Database, data_dir: Path, *, actor: str) -> None:
    """Where the pepper is lost: let the one in the data directory count from now on, or make one
    if there is none. All secrets of keys end, since nobody can check them any more; `rotate_key`
    gives a key another one.

    Processes that run keep the former pepper until they are started again.

    Raises:
        AccessError: the pepper is the right one.
        StoreError: the file is damaged.
        DatabaseUnavailable
    """
    with database.transaction(write=True) as connection:
        begin_change(connection, EVERYTHING)
        found = find_pepper(data_dir)
        if found is not None and _stored(connection) in (None, _check_of(found)):
            raise AccessError(
                f"{pepper_path(data_dir)} is the pepper of this database; nothing was changed"
            )
        end_all_secrets(connection)
        connection.execute(delete(installation).where(installation.c.name == _NAME))
        _store(connection, make_pepper(data_dir))
        record(connection, actor, "pepper.replace", "pepper", after={})


def _store(connection: Connection, pepper: bytes) -> None:
    connection.execute(insert(installation).values(name=_NAME, value=_check_of(pepper)))


def _stored(connection: Connection) -> bytes | None:
    query = select(installation.c.value).where(installation.c.name == _NAME)
    return connection.scalars(query).one_or_none()


def _has_keys(connection: Connection) -> bool:
    return connection.scalars(select(keys.c.id).limit(1)).one_or_none() is not None


def _check_of(pepper: bytes) -> bytes:
    return hmac.digest(pepper, _CHECKED, hashlib.sha256)


def _missing(data_dir: Path) -> WrongPepper:
    return WrongPepper(
        f"{pepper_path(data_dir)} is missing, and without it no key in the database is valid: "
        f"restore the file {_ADVICE}"
    )


def _wrong(data_dir: Path) -> WrongPepper:
    return WrongPepper(
        f"{pepper_path(data_dir)} is not the pepper that the keys in the database were made with: "
        f"restore the right file {_ADVICE}"
    )
