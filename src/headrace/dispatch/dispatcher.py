"""Gives every request a place on the worker, or refuses it while that is still cheap."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

from headrace.dispatch.errors import Overloaded, Unavailable
from headrace.dispatch.generation import Generation
from headrace.dispatch.queue import FifoQueue, Ticket
from headrace.dispatch.terms import USUAL, Terms
from headrace.engine.request import GenerationRequest
from headrace.engine.status import EngineStatus
from headrace.fleet.supervisor import Supervisor, WorkerStatus


@dataclass(frozen=True, slots=True)
class DispatchStatus:
    """queued: requests waiting here; running: requests on the worker; draining: nothing new
    is admitted; worker: how the worker process is."""

    queued: int
    running: int
    draining: bool
    worker: WorkerStatus


class Dispatcher:
    """One writer of the queue and of the count of places, on one event loop.

    The worker gets at most its `max_sequences` requests at once, so that waiting happens
    here, where it can still be ordered and cancelled for free. max_queue: most requests that
    wait. outage_patience: seconds for which requests wait for a worker that is being
    started before they are refused.
    """

    def __init__(
        self, supervisor: Supervisor, *, max_queue: int = 1024, outage_patience: float = 5.0
    ) -> None:
        self._supervisor = supervisor
        self._max_queue = max_queue
        self._outage_patience = outage_patience
        self._outage: asyncio.TimerHandle | None = None
        self._outage_over_patience = False
        self._queue = FifoQueue()
        self._draining = False
        self._idle = asyncio.Event()
        supervisor.on_change = self._advance

    async def start(self) -> None:
        """Start the worker and wait until it is ready. Raises `fleet.errors.WorkerFailed`
        with a sentence if it cannot start. Requests may be placed before it returns."""
        self._advance()
        await self._supervisor.start()

    async def stop(self, grace: float = 30.0) -> None:
        """Admit nothing more, let what runs finish for `grace` seconds, then end it (as an
        error) together with the worker."""
        self.drain()
        try:
            async with asyncio.timeout(grace):
                while self._supervisor.live:
                    self._idle.clear()
                    await self._idle.wait()
        except TimeoutError:
            pass
        if self._outage is not None:
            self._outage.cancel()
        await self._supervisor.stop()

    def drain(self) -> None:
        """Admit nothing more and refuse those who wait; what runs goes on."""
        self._draining = True
        self._refuse_all("draining", "the service is shutting down")

    async def place(self, request: GenerationRequest, terms: Terms = USUAL) -> Generation:
        """Wait for a place on the worker; the request is running when this returns.

        Cancelling the wait takes the request out of the queue at once. Raises Overloaded
        when the queue is full and Unavailable when there is no worker to wait for.
        """
        if self._draining:
            raise self._unavailable("draining", "the service is shutting down")
        if self._outage_over_patience:
            raise self._no_worker()
        if len(self._queue) >= self._max_queue and not self._free_places():
            raise Overloaded(
                "queue_full",
                f"{len(self._queue)} requests are waiting and no more may join them",
                _jittered(1.0),
            )
        ticket = Ticket(request, asyncio.get_running_loop().create_future())
        self._queue.push(ticket)
        self._advance()
        try:
            return await ticket.granted
        except asyncio.CancelledError:
            self._withdraw(ticket)
            raise

    def status(self) -> DispatchStatus:
        return DispatchStatus(
            queued=len(self._queue),
            running=self._supervisor.live,
            draining=self._draining,
            worker=self._supervisor.status(),
        )

    async def probe(self, timeout: float = 5.0) -> EngineStatus:
        """A reading from the engine's own loop, so an answer proves progress. Raises
        TimeoutError, or `fleet.errors.WorkerUnavailable` when there is no ready worker."""
        return await self._supervisor.probe(timeout)

    def _advance(self) -> None:
        """Hand out free places; called whenever a request, a place or the worker changes."""
        self._note_outage()
        while self._queue and self._free_places():
            ticket = self._queue.pop()
            if ticket.granted.cancelled():
                continue
            try:
                mailbox = self._supervisor.submit(ticket.request)
            except Exception as error:
                ticket.granted.set_exception(error)
                continue
            ticket.granted.set_result(Generation(mailbox, self._supervisor.cancel))
        if not self._supervisor.live:
            self._idle.set()

    def _free_places(self) -> int:
        return self._supervisor.capacity - self._supervisor.live

    def _withdraw(self, ticket: Ticket) -> None:
        self._queue.discard(ticket)
        if not ticket.granted.cancelled() and ticket.granted.exception() is None:
            # The place came in the same moment as the cancellation: nobody will read it.
            ticket.granted.result().cancel()

    def _note_outage(self) -> None:
        """Start the clock of an outage when the worker goes, forget it when it is back."""
        if self._supervisor.capacity:
            if self._outage is not None:
                self._outage.cancel()
            self._outage = None
            self._outage_over_patience = False
        elif self._outage is None and not self._draining:
            loop = asyncio.get_running_loop()
            self._outage = loop.call_later(self._outage_patience, self._lose_patience)

    def _lose_patience(self) -> None:
        self._outage_over_patience = True
        self._refuse_all("no_worker", "no engine is running")

    def _refuse_all(self, reason: str, message: str) -> None:
        while self._queue:
            granted = self._queue.pop().granted
            if not granted.cancelled():
                granted.set_exception(self._unavailable(reason, message))

    def _no_worker(self) -> Unavailable:
        return self._unavailable("no_worker", "no engine is running")

    def _unavailable(self, reason: str, message: str) -> Unavailable:
        return Unavailable(reason, message, _jittered(1.0))


def _jittered(seconds: float) -> float:
    return seconds * random.uniform(1.0, 3.0)
