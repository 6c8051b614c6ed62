"""Whether the client of a request is still there, and the service still willing."""

from __future__ import annotations

from typing import Protocol

from starlette.types import Scope

_KEY = "headrace.connection"


class Work(Protocol):
    """What is done for a request."""

    def cancel(self) -> None:
        """Nobody waits for it any more."""
        ...

    def stop(self) -> None:
        """The service ends: it has to end with an error that says so."""
        ...


class Connection:
    """gone: the client has left. The work for the request is cancelled when it does.

    ASGI tells it through `receive`, which takes a task to wait for, in every request. The server
    knows (`edge.protocol.HttpExchange`), so it says so.
    """

    __slots__ = ("_stopped", "_work", "gone")

    def __init__(self) -> None:
        self.gone = self._stopped = False
        self._work: Work | None = None

    def watch(self, work: Work) -> None:
        """End it once the client leaves or the service ends; at once if that has happened."""
        self._work = work
        if self.gone:
            work.cancel()
        elif self._stopped:
            work.stop()

    def unwatch(self) -> None:
        self._work = None

    def lose(self) -> None:
        """The client has left."""
        self.gone = True
        if self._work is not None:
            self._work.cancel()

    def stop(self) -> None:
        """The service ends."""
        self._stopped = True
        if self._work is not None:
            self._work.stop()


def connect(scope: Scope, connection: Connection) -> None:
    scope[_KEY] = connection


def connection_of(scope: Scope) -> Connection:
    """One that is never lost, if the server doesn't tell."""
    found: Connection | None = scope.get(_KEY)
    return Connection() if found is None else found
