"""What changes are told by: PostgreSQL's NOTIFY to other processes, a call to those in this one."""

from __future__ import annotations

from collections.abc import AsyncIterator

from sqlalchemy import Connection, Engine, text

from headrace.store.errors import DatabaseUnavailable, reason

_TOLD = "headrace_told"


def tell(connection: Connection, channel: str) -> None:
    """Tell all who listen that something happened, as soon as the transaction is committed and
    only then. channel: a name that needs no quoting in SQL.

    SQLite tells nothing to other processes; they must look by themselves.
    """
    connection.info.setdefault(_TOLD, set()).add(channel)
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"NOTIFY {channel}"))


def take_told(connection: Connection) -> set[str]:
    """The channels on which the transaction told something."""
    told: set[str] = connection.info.pop(_TOLD, set())
    return told


async def notices(engine: Engine, channel: str) -> AsyncIterator[None]:
    """PostgreSQL: one item when listening begins, then one for every notice, whichever process it
    is from, over a connection of its own.

    Raises:
        DatabaseUnavailable: the server is out of reach, or the connection was lost.
    """
    import psycopg

    _, options = engine.dialect.create_connect_args(engine.url)
    options.update(autocommit=True, connect_timeout=5)
    try:
        async with await psycopg.AsyncConnection.connect(**options) as connection:
            await connection.execute(f"LISTEN {channel}")
            yield
            async for _ in connection.notifies():
                yield
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(reason(error)) from error
