"""The database, for commands that look into it or change it."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.cli.flags import with_settings
from headrace.cli.output import plainly
from headrace.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection

    from headrace.store.database import Database

in_data_dir = with_settings("data_dir", "database_url", "config")
about_models = with_settings("data_dir", "database_url", "models_dir", "config")
"""For commands that must know which models there are."""


@contextmanager
def open_database(settings: Settings, *, make: bool = False) -> Iterator[Database]:
    """The database that the service uses too, with this release's schema. Its faults become
    `CommandError`s.

    make: whether it is made where there is none. Else that is an error, because the data directory
    is likely to be the wrong one.
    """
    from headrace.store.errors import StoreError

    with connected(settings, make=make) as (database, _), plainly(StoreError):
        database.bring_up_to_date(may_migrate=settings.auto_migrate)
        yield database


@contextmanager
def open_unserved(settings: Settings) -> Iterator[Database]:
    """As `open_database`, while no service runs on the data directory or the SQLite file. Raises
    CommandError, which names the process, if one does."""
    from headrace.store.errors import StoreError
    from headrace.store.lock import only_service
    from headrace.store.url import database_url

    with open_database(settings) as database, plainly(StoreError):
        url = database_url(settings.database_url, settings.data_dir)
        with only_service(settings.data_dir, url):
            yield database


@contextmanager
def connected(settings: Settings, *, make: bool) -> Iterator[tuple[Database, URL]]:
    """As `open_database`, whatever the schema; and where the database is."""
    import structlog

    from headrace.store.database import Database
    from headrace.store.errors import StoreError
    from headrace.store.files import make_private_folder
    from headrace.store.url import database_url

    # What is logged must not stand among the data that a command prints.
    structlog.configure(logger_factory=lambda *_: structlog.WriteLogger(sys.stderr))
    with plainly(StoreError):
        url = database_url(settings.database_url, settings.data_dir)
        if make:
            make_private_folder(settings.data_dir)
        elif url.drivername == "sqlite" and not Path(str(url.database)).exists():
            raise StoreError(
                f"there is no database at {url.database}: name the right data directory with "
                f"--data-dir (it is {settings.data_dir}, by {settings.origin('data_dir')})"
            )
        database = Database.connect(url)
        try:
            yield database, url
        finally:
            database.close()


@contextmanager
def reading(settings: Settings) -> Iterator[Connection]:
    """A transaction that looks into the database. AccessErrors become `CommandError`s too."""
    with _transaction(settings, write=False) as connection:
        yield connection


@contextmanager
def changing(settings: Settings, *, make: bool = False) -> Iterator[Connection]:
    """As `reading`, for a change. make: as of `open_database`, for what may come first."""
    with _transaction(settings, write=True, make=make) as connection:
        yield connection


@contextmanager
def changing_keys(settings: Settings) -> Iterator[tuple[Connection, bytes]]:
    """As `changing`, with the pepper that the database's keys are made with."""
    from headrace.access.errors import AccessError
    from headrace.access.pepper import open_pepper

    with open_database(settings) as database, plainly(AccessError):
        pepper = open_pepper(database, settings.data_dir)
        with database.transaction(write=True) as connection:
            yield connection, pepper


@contextmanager
def _transaction(settings: Settings, *, write: bool, make: bool = False) -> Iterator[Connection]:
    from headrace.access.errors import AccessError

    with (
        open_database(settings, make=make) as database,
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
