"""One request on its way to be dispatched: whose it is, what it holds, and until when."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from types import TracebackType
from typing import TypeVar

from headrace.access.principal import Principal
from headrace.dispatch.errors import Overloaded, Refused, Unavailable, jittered
from headrace.edge.aside import Aside
from headrace.edge.connection import Connection
from headrace.edge.intake import SMALL_BODY, Claim
from headrace.edge.job import ServiceEnds
from headrace.edge.services import Quotas, Reservation
from headrace.edge.watched import watched
from headrace.fleet.errors import WorkerUnavailable
from headrace.quotas.demand import Consumed
from headrace.quotas.limit import Standing
from headrace.store.errors import DatabaseUnavailable
from headrace.store.ids import uuid7
from headrace.turns.threads import ASIDE, FairThreads, Steps

T = TypeVar("T")

MOST_WAIT = 30.0
"""Seconds for which a request without a deadline is prepared at most."""

TURNED_AWAY = (Refused, WorkerUnavailable, DatabaseUnavailable)
"""Faults that are ours and end a request before its work: it counts towards no limit, unless its
deadline passed after it was begun."""

CLOSE = 0.1
"""Seconds before its deadline from which a request that is late has had its time. Dispatch has
another clock."""


class Admission:
    """The work for one request before it is dispatched. Used as a context: what it holds of limits
    and of the intake is given back at its end.

    principal: who asks. deadline: in unix seconds, None if the caller names none. claim: the
    bytes of its body under way.
    """

    def __init__(
        self,
        principal: Principal,
        deadline: float | None,
        connection: Connection,
        aside: Aside,
        quotas: Quotas,
    ) -> None:
        self.principal = principal
        self.deadline = deadline
        self.claim = Claim(aside.intake, principal.tenant.id)
        self._connection = connection
        self._threads = aside.threads
        self._now = aside.now
        self._dice = aside.dice
        self._quotas = quotas
        self._begun = self._over = False
        self._entered: Reservation | None = None
        self._size = 0
        self._given_up = False

    async def __aenter__(self) -> Admission:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, _: TracebackType | None
    ) -> None:
        self.claim.release()
        if self._entered is not None:
            await self._entered.settle(Consumed(refused=self._is_ours(fault)))

    def _is_ours(self, fault: BaseException | None) -> bool:
        """Whether it was turned away because of us. One that was worked on until its time was over
        was not, else a short deadline would make that work free."""
        if self._begun and isinstance(fault, Overloaded) and (self._over or self._left < CLOSE):
            return False
        return isinstance(fault, TURNED_AWAY)

    @property
    def _left(self) -> float:
        """Seconds until its deadline."""
        return math.inf if self.deadline is None else self.deadline - self._now()

    async def enter(self) -> None:
        """Draw on the limits of requests, before work that costs something. Whatever becomes of
        the request, it counts, unless it is turned away because of us.

        Raises LimitReached, and DatabaseUnavailable. Does nothing when called again.
        """
        if self._entered is None:
            self._entered = await self._quotas.enter(self.principal, uuid7())

    @property
    def entered(self) -> bool:
        """The request counts towards the limits of requests already."""
        return self._entered is not None

    @property
    def standings(self) -> Sequence[Standing]:
        """Of the limits that were drawn on."""
        return () if self._entered is None else self._entered.standings

    def given_up(self) -> bool:
        """Whether nobody waits any more for what was last to be done in turn. Safe to ask from
        any thread."""
        return self._given_up

    def received(self, size: int) -> None:
        """The body is there. size: in bytes; of small ones all is done at once that
        is sure to be short."""
        self._size = size

    async def prepare(self, steps: Steps[T]) -> T:
        """Do work of which the body's size decides how long it takes. Raises what the work
        raises, and what `turn` raises."""
        if self._size <= SMALL_BODY:
            try:
                while next(steps) is not ASIDE:
                    pass
            except StopIteration as end:
                result: T = end.value
                return result
        return await self.turn(self._threads, steps)

    async def turn(self, threads: FairThreads, steps: Steps[T]) -> T:
        """Do work on other threads, in turn with other tenants.

        Raises Overloaded when the deadline comes first, ClientGone when the client leaves, and
        Unavailable when the service ends. The work is given up then.
        """
        left = MOST_WAIT if self.deadline is None else self._left
        work = self._noted(steps)
        future = asyncio.wrap_future(threads.submit(self.principal.tenant.id, work))
        try:
            async with asyncio.timeout(left):
                return await watched(future, self._connection)
        except TimeoutError:
            self._over = True
            raise Overloaded(
                "waited_too_long",
                "the request could not be prepared before its deadline",
                jittered(1.0, self._dice),
            ) from None
        except ServiceEnds:
            raise Unavailable("draining", "the service ends", 1.0) from None
        finally:
            self._given_up = not future.done() or future.cancelled()

    def _noted(self, steps: Steps[T]) -> Steps[T]:
        """The same work. It is noted that it has begun."""
        self._begun = True
        return (yield from steps)
