"""Gives every request a place on the worker, or refuses it while that is still cheap."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from headrace.dispatch.arbiter import Arbiter
from headrace.dispatch.entry import Entry
from headrace.dispatch.errors import Overloaded, Refused, Unavailable, jittered
from headrace.dispatch.generation import Generation
from headrace.dispatch.policy import Policies, usual_policies
from headrace.dispatch.prefixes import names_of
from headrace.dispatch.shed import Shed
from headrace.dispatch.status import DispatchStatus
from headrace.dispatch.terms import USUAL, Terms
from headrace.dispatch.ticket import Ticket
from headrace.engine.output import Output
from headrace.engine.request import GenerationRequest
from headrace.engine.status import EngineStatus
from headrace.fleet.supervisor import Supervisor
from headrace.ops.backend import BLOCK_SIZE

AHEAD_STEPS = 4
"""Steps' worth of prompts that are sent before they can be computed: enough that the worker never
waits for us, few enough that its own queue decides nothing."""

USUAL_QUEUE = 1024

RETRY_SECONDS = (1.0, 20.0)
"""Whoever is turned away is told to come back after a time between these, times the jitter."""


class Dispatcher:
    """One writer of the queue and of the count of places, on one event loop.

    The worker gets at most its `max_sequences` requests at once and few prompts ahead, so that
    waiting happens here, where it can still be ordered and cancelled for free. While there is no
    worker, requests wait for the next one until their deadlines. policies: of the
    classes. clock: seconds that never go back. wall: unix seconds. dice: for times after which to
    come back.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        policies: Policies | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        dice: random.Random | None = None,
    ) -> None:
        self._supervisor = supervisor
        self._clock = clock
        self._wall = wall
        self._dice = dice or random.Random()
        self._arbiter = Arbiter(policies or usual_policies(USUAL_QUEUE))
        self._waiting: dict[Entry, Ticket] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._advancing: asyncio.Handle | None = None
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
                while self._supervisor.live or self._waiting:
                    self._idle.clear()
                    await self._idle.wait()
        except TimeoutError:
            pass
        await self._supervisor.stop()
        self._refuse(list(self._waiting))
        for handle in (self._alarm, self._advancing):
            if handle is not None:
                handle.cancel()

    def drain(self) -> None:
        """Admit nothing more and refuse those who wait; what has begun goes on, with all
        generations of its answer."""
        self._draining = True
        self._refuse([entry for entry in self._waiting if not entry.kept])

    def check(self, terms: Terms) -> None:
        """Raises what `place` would raise at once for the smallest request on these terms: before
        it is known how large one is, it can be refused for next to nothing."""
        smallest = self._entry(terms, prompt=1, max_tokens=1)
        self._check_open(smallest)
        if shed := self._arbiter.ask(smallest, smallest.arrived):
            raise self._refusal(shed)

    async def place(self, request: GenerationRequest, terms: Terms = USUAL) -> Generation:
        """Wait for a place on the worker; the request is running when this returns.

        Cancelling the wait takes the request out of the queue at once. Raises Overloaded
        when the queue is full, or the request's turn would or does come too late, and Unavailable
        when no worker will be or was there before its deadline. One whose siblings have begun is
        not refused.
        """
        entry = self._entry(
            terms,
            prompt=len(request.prompt),
            max_tokens=request.stopping.max_tokens,
            prefixes=names_of(request.prompt, request.namespace),
        )
        self._check_open(entry)
        if shed := self._arbiter.join(entry, entry.arrived):
            raise self._refusal(shed)
        rank = self._arbiter.queues[terms.service_class].policy.rank
        request = replace(request, priority=rank, long=terms.long)
        ticket = Ticket(entry, request, asyncio.get_running_loop().create_future())
        self._waiting[entry] = ticket
        self._hand_out()
        try:
            return await ticket.granted
        except asyncio.CancelledError:
            self._withdraw(ticket)
            raise

    def status(self) -> DispatchStatus:
        room = self._arbiter.room
        return DispatchStatus(
            queued=len(self._waiting),
            running=self._supervisor.live,
            draining=self._draining,
            worker=self._supervisor.status(),
            places=room.places,
            long_running=room.long_running,
            long_places=room.long_places,
            tenants=self._arbiter.tenants(self._clock()),
            sheds=dict(self._arbiter.sheds),
        )

    async def probe(self, timeout: float = 5.0) -> EngineStatus:
        """A reading from the engine's own loop, so an answer proves progress. Raises
        TimeoutError, or `fleet.errors.WorkerUnavailable` when there is no ready worker."""
        return await self._supervisor.probe(timeout)

    def _entry(
        self, terms: Terms, *, prompt: int, max_tokens: int, prefixes: tuple[bytes, ...] = ()
    ) -> Entry:
        now = self._clock()
        left = math.inf if terms.deadline is None else terms.deadline - self._wall()
        return Entry(
            tenant=terms.tenant,
            weight=terms.weight,
            service_class=terms.service_class,
            long=terms.long,
            prompt=prompt,
            max_tokens=max_tokens,
            arrived=now,
            asked=now + left,
            prefixes=prefixes,
            siblings=terms.siblings,
        )

    def _advance(self) -> None:
        """Do what can be done now; called whenever a place or the worker changes."""
        if self._advancing is not None:
            self._advancing.cancel()
            self._advancing = None
        self._resize()
        self._hand_out()
        if not self._supervisor.live and not self._waiting:
            self._idle.set()

    def _hand_out(self) -> None:
        while self._move():
            pass
        self._set_alarm()

    def _move(self) -> bool:
        """Whether places were handed out that nobody took."""
        moves = self._arbiter.advance(self._clock())
        for entry, shed in moves.shed:
            self._reject(entry, self._refusal(shed))
        taken = [self._submit(self._waiting.pop(entry)) for entry in moves.placed]
        return not all(taken)

    def _submit(self, ticket: Ticket) -> bool:
        """Whether it runs now."""
        fault: Exception | None = None
        if not ticket.granted.cancelled():
            try:
                mailbox = self._supervisor.submit(ticket.request)
            except Exception as error:
                fault = error
            else:
                mailbox.watcher = lambda output: self._watch(ticket.entry, output)
                ticket.granted.set_result(Generation(mailbox, self._supervisor.cancel))
                return True
        self._arbiter.undo(ticket.entry, self._clock())
        if fault is not None:
            ticket.granted.set_exception(fault)
        return False

    def _watch(self, entry: Entry, output: Output) -> None:
        """A running request has come further."""
        now, finish = self._clock(), output.finish
        if not entry.started and self._waiting and self._advancing is None:
            self._advancing = asyncio.get_running_loop().call_soon(self._advance)
        if finish is None:
            self._arbiter.note(entry, len(output.tokens), now)
            return
        answered = finish.reason in ("stop", "length")
        tokens = finish.completion_tokens - entry.generated
        if tokens or answered:
            self._arbiter.note(entry, tokens, now)
        cached = finish.cached_tokens if answered else None
        self._arbiter.end(entry, now, cached=cached, answered=answered)

    def _resize(self) -> None:
        ready = self._supervisor.ready
        self._arbiter.resize(
            self._supervisor.capacity,
            None if ready is None else ready.blocks * BLOCK_SIZE,
            None if ready is None else AHEAD_STEPS * ready.max_step_tokens,
        )

    def _set_alarm(self) -> None:
        """Wake up when the next deadline passes."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._waiting:
            delay = max(self._arbiter.next_deadline - self._clock(), 0.001)
            self._alarm = asyncio.get_running_loop().call_later(delay, self._advance)

    def _withdraw(self, ticket: Ticket) -> None:
        if self._waiting.pop(ticket.entry, None) is not None:
            self._arbiter.withdraw(ticket.entry, self._clock())
        elif not ticket.granted.cancelled() and ticket.granted.exception() is None:
            # The place came in the same moment as the cancellation: nobody will read it.
            ticket.granted.result().cancel()

    def _refuse(self, waiting: Sequence[Entry]) -> None:
        for entry in waiting:
            self._arbiter.withdraw(entry, self._clock())
            self._reject(entry, self._shutting_down())

    def _reject(self, entry: Entry, refusal: Refused) -> None:
        granted = self._waiting.pop(entry).granted
        if not granted.cancelled():
            granted.set_exception(refusal)

    def _check_open(self, entry: Entry) -> None:
        begun = entry.siblings is not None and entry.siblings.begun
        if self._draining and not begun:
            raise self._shutting_down()

    def _shutting_down(self) -> Unavailable:
        message = "the service is shutting down"
        return Unavailable("draining", message, jittered(1.0, self._dice))

    def _refusal(self, shed: Shed) -> Refused:
        least, most = RETRY_SECONDS
        if shed.reason == "no_worker":
            wait = shed.wait + jittered(least, self._dice)
            return Unavailable(shed.reason, shed.message, wait)
        wait = jittered(min(max(shed.wait, least), most), self._dice)
        return Overloaded(shed.reason, shed.message, wait)
