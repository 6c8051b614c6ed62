"""The pepper of an installation, held against what its database says of it."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

from sqlalchemy import Connection, insert, select

from headrace.access.revision import lock_registry
from headrace.store.database import Database
from headrace.store.errors import StoreError
from headrace.store.files import find_pepper, make_pepper, pepper_path
from headrace.store.schema import installation, keys

_NAME = "pepper_check"
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
            connection.execute(insert(installation).values(name=_NAME, value=_check_of(found)))
        elif stored != _check_of(found):
            raise _wrong(data_dir)
    return found


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
        "restore the file from the backup, or copy it from another service on this database"
    )


def _wrong(data_dir: Path) -> WrongPepper:
    return WrongPepper(
        f"{pepper_path(data_dir)} is not the pepper that the keys in the database were made with: "
        "restore the right file from the backup, or copy it from another service on this database"
    )
