"""The connections that are open: how many there may be, and who has to go for whom."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Protocol

import structlog

log = structlog.get_logger("headrace.edge")

SPARE = 64
"""Connections beyond the limit, on which only health is told and all else refused."""

SOON = 1.0
"""Seconds that a connection may wait for its client before it is one of the first to go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """connections: open at once. Times are seconds. head: from a connection's start or a head's
    first byte to its last. body: without a byte of a body. body_rate: bytes a second that a body
    has to come to, after its first `body` seconds. write: in which a client has to take what
    stands in its way. idle: between requests. linger: for which a client may go on sending behind
    its last answer."""

    connections: int = 4096
    head: float = 10.0
    body: float = 20.0
    body_rate: float = 4096.0
    write: float = 60.0
    idle: float = 120.0
    linger: float = 2.0


class Waiting(Protocol):
    """A connection that waits for its client. since, deadline: by the clock of the loop."""

    since: float
    deadline: float
    peer: str

    def expire(self) -> None:
        """The deadline has passed."""
        ...

    def close(self) -> None:
        """Behind what is written."""
        ...

    def cut(self) -> None:
        """At once, whatever is still to be sent."""
        ...

    def evict(self) -> None:
        """It has to make room."""
        ...


Line = dict[Waiting, None]
"""Connections that wait for their clients, in the order in which they began to."""


class OpenConnections:
    """Counts connections, and knows those that wait for their clients: for the rest of a head, for
    another request, or for a body to come or an answer to be taken. What we work for is in none of
    these lines, and no other connection closes it.

    Where there are too many, one that waits goes: first what has not sent a whole head within a
    second, then who is idle, then whose body or reading has kept us for a second, and last a
    younger head; always the one that has waited longest. An address that has more than half of all
    connections makes room for its own. If all that are open are worked for, the new one is beyond
    the limit.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.heads: Line = {}
        self.idle: Line = {}
        self.clients: Line = {}
        self._open = 0
        self._of_peer: Counter[str] = Counter()
        self._evicted = self._refused = self._overdue = 0

    def __len__(self) -> int:
        return self._open

    def add(self, connection: Waiting) -> bool:
        """Whether it is within the limit, as it is or after another one was closed for it."""
        self._open += 1
        self._of_peer[connection.peer] += 1
        if self._open <= self.limits.connections:
            return True
        victim = self._victim(connection)
        if victim is not None:
            self._evicted += 1
            victim.evict()
            return True
        self._refused += 1
        if self._open > self.limits.connections + SPARE:
            connection.evict()
        return False

    def remove(self, connection: Waiting) -> None:
        peer = connection.peer
        self._open -= 1
        self._of_peer[peer] -= 1
        if not self._of_peer[peer]:
            del self._of_peer[peer]

    def close_idle(self) -> None:
        """Close those that no request is answered on."""
        for line in (self.heads, self.idle):
            for connection in list(line):
                connection.close()

    def cut_all(self) -> None:
        """Close those that wait for their client, whatever is still to be sent."""
        for line in (self.heads, self.idle, self.clients):
            for connection in list(line):
                connection.cut()

    def sweep(self, now: float) -> None:
        """Have those expire whose deadline has passed, and log what became of connections since
        the last time."""
        overdue = [
            connection
            for line in (self.heads, self.idle, self.clients)
            for connection in line
            if connection.deadline <= now
        ]
        for connection in overdue:
            connection.expire()
        if self._evicted or self._refused:
            log.warning(
                "too_many_connections",
                limit=self.limits.connections,
                open=self._open,
                closed=self._evicted,
                beyond=self._refused,
            )
            self._evicted = self._refused = 0

    def _victim(self, new: Waiting) -> Waiting | None:
        own = self._of_peer[new.peer] > self.limits.connections / 2
        for line, least in (
            (self.heads, SOON),
            (self.idle, 0.0),
            (self.clients, SOON),
            (self.heads, 0.0),
        ):
            for connection in line:
                if connection is new or (own and connection.peer != new.peer):
                    continue
                if new.since - connection.since >= least:
                    return connection
                break
        return None
