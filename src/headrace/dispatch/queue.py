"""Requests that wait for a place, in the order in which they will get one."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

from headrace.dispatch.generation import Generation
from headrace.engine.request import GenerationRequest


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """A waiting request and the future that brings its generation or the refusal."""

    request: GenerationRequest
    granted: asyncio.Future[Generation]


class FifoQueue:
    """First come, first served; leaving from the middle is O(1)."""

    def __init__(self) -> None:
        self._tickets: OrderedDict[Ticket, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tickets)

    def push(self, ticket: Ticket) -> None:
        self._tickets[ticket] = None

    def pop(self) -> Ticket:
        """The ticket whose turn it is. Raises KeyError when nobody waits."""
        ticket, _ = self._tickets.popitem(last=False)
        return ticket

    def discard(self, ticket: Ticket) -> None:
        """Take a ticket out, wherever it stands; nothing happens if it is not there."""
        self._tickets.pop(ticket, None)
