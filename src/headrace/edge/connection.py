"""Whether the client of a request is still there."""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import Scope

_KEY = "headrace.connection"


class Connection:
    """gone: the client has left. on_lost: called when it does.

    ASGI tells it through `receive`, which takes a task to wait for, in every request. The server
    knows (`edge.server.HttpProtocol`), so it says so.
    """

    __slots__ = ("gone", "on_lost")

    def __init__(self) -> None:
        self.gone = False
        self.on_lost: Callable[[], None] | None = None

    def watch(self, on_lost: Callable[[], None]) -> None:
        """Call it once the client leaves, at once if it has left."""
        self.on_lost = on_lost
        if self.gone:
            on_lost()

    def unwatch(self) -> None:
        self.on_lost = None

    def lose(self) -> None:
        self.gone = True
        if self.on_lost is not None:
            self.on_lost()


def connect(scope: Scope, connection: Connection) -> None:
    scope[_KEY] = connection


def connection_of(scope: Scope) -> Connection:
    """One that is never lost, if the server doesn't tell."""
    found: Connection | None = scope.get(_KEY)
    return Connection() if found is None else found
