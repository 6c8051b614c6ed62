"""Where the database is."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from headrace.store.errors import StoreError

FILE = "headrace.db"

_DRIVERS = {
    "sqlite": "sqlite",
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
}


def database_url(given: str | None, data_dir: Path) -> URL:
    """The database that settings name: a URL of SQLite (a file) or PostgreSQL, or by default a
    SQLite file in the data directory. Whatever driver the URL names, ours is used.

    Raises:
        StoreError: no URL, another kind of database, or SQLite in memory, which no second
            process and not even a second thread could see.
    """
    if given is None:
        return URL.create("sqlite", database=str(data_dir / FILE))
    try:
        url = make_url(given)
    except ArgumentError:
        raise StoreError("database_url is not a URL such as postgresql://user@host/name") from None
    driver = _DRIVERS.get(url.drivername.partition("+")[0])
    if driver is None:
        raise StoreError(f"database_url names {url.drivername!r}; use sqlite or postgresql")
    if driver == "sqlite" and url.database in (None, "", ":memory:"):
        raise StoreError("database_url must name a file: sqlite:////var/lib/headrace/headrace.db")
    return url.set(drivername=driver)
