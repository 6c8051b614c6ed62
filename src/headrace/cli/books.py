"""The database, for commands that look into it or change it."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.cli.flags import with_settings
from headrace.cli.output import plainly
from headrace.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from headrace.store.database import Database

in_data_dir = with_settings("data_dir", "database_url", "config")


@contextmanager
def open_database(settings: Settings) -> Iterator[Database]:
    """The database that the service uses too, made if there is none. Its faults become
    `CommandError`s."""
    from headrace.store.database import Database
    from headrace.store.errors import StoreError
    from headrace.store.url import database_url

    with plainly(StoreError):
        url = database_url(settings.database_url, settings.data_dir)
        database = Database.open(url, may_migrate=settings.auto_migrate)
        try:
            yield database
        finally:
            database.close()


@contextmanager
def reading(settings: Settings) -> Iterator[Connection]:
    """A transaction that looks into the database. AccessErrors become `CommandError`s too."""
    with _transaction(settings, write=False) as connection:
        yield connection


@contextmanager
def changing(settings: Settings) -> Iterator[Connection]:
    """As `reading`, for a change."""
    with _transaction(settings, write=True) as connection:
        yield connection


@contextmanager
def _transaction(settings: Settings, *, write: bool) -> Iterator[Connection]:
    from headrace.access.errors import AccessError

    with (
        open_database(settings) as database,
        plainly(AccessError),
        database.transaction(write=write) as connection,
    ):
        yield connection


def actor() -> str:
    """The user of this machine who gives the command, as the audit log names them."""
    try:
        return f"user:{pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:
        return f"user:{os.getuid()}"
