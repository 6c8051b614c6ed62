"""Whether the client of a request is still there, and the service still willing."""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import Scope

_KEY = "headrace.connection"


def _nothing() -> None:
    pass


class Connection:
    """gone: the client has left. The work for the request learns it through `watch`.

    ASGI tells it through `receive`, which takes a task to wait for, in every request. The server
    knows (`edge.protocol.HttpExchange`), so it says so.
    """

    def __init__(self) -> None:
        self.gone = self._stopped = False
        self._on_lost = self._on_stop = _nothing

    def watch(self, on_lost: Callable[[], None], on_stop: Callable[[], None] = _nothing) -> None:
        """on_lost: called once the client leaves, so that the work is given up. on_stop: called
        once the service ends, so that the work ends with an error that says so. At once where it
        has happened."""
        self._on_lost, self._on_stop = on_lost, on_stop
        if self.gone:
            on_lost()
        elif self._stopped:
            on_stop()

    def unwatch(self) -> None:
        self._on_lost = self._on_stop = _nothing

    def lose(self) -> None:
        """The client has left."""
        self.gone = True
        self._on_lost()

    def stop(self) -> None:
        """The service ends."""
        self._stopped = True
        self._on_stop()


def connect(scope: Scope, connection: Connection) -> None:
    scope[_KEY] = connection


def connection_of(scope: Scope) -> Connection:
    """One that is never lost, if the server doesn't tell."""
    found: Connection | None = scope.get(_KEY)
    return Connection() if found is None else found
