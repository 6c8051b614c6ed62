"""Keeps a worker process running and carries requests to it and outputs back."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import msgspec
import structlog

from headrace.engine.request import GenerationRequest
from headrace.engine.status import EngineStatus
from headrace.fleet.child import Child, describe_exit
from headrace.fleet.config import WorkerConfig
from headrace.fleet.errors import WorkerFailed, WorkerUnavailable
from headrace.fleet.mailbox import Mailbox
from headrace.fleet.messages import (
    Cancel,
    Failed,
    Outputs,
    Probe,
    Ready,
    Shutdown,
    Status,
    Submit,
)
from headrace.fleet.traffic import Traffic

log = structlog.get_logger("headrace.fleet")

WorkerState = Literal["starting", "ready", "backing_off", "stopped"]
NOT_STARTED = "the engine is gone, and the next one could not be started"
STOPPED = "the service is shutting down and the engine was stopped"
WATCH_NONCE = 0
BEATS_TO_REPORT = 5
START_TRIES = 2
"""Live requests wait for a next worker until so many starts in a row have failed."""
WORKER_COMMAND = (sys.executable, "-m", "headrace.fleet.worker")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the supervisor waits, in seconds.

    start: for a worker to load its model. beat: between looks at a worker that owes an
    answer; after `silent_beats` of them without a sign of life it is killed. The first step
    of a long prompt on a slow machine must fit. backoff_first .. backoff_most: between
    failed starts, doubling. stable: of service after which earlier deaths are forgotten.
    stop: for a worker to end when told to.
    """

    start: float = 300.0
    beat: float = 2.0
    silent_beats: int = 30
    backoff_first: float = 0.25
    backoff_most: float = 30.0
    stable: float = 60.0
    stop: float = 5.0


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """ready: what the worker said of itself, None unless state is "ready". starts: processes
    started so far. failures: ends in a row, none of which had served for a stable while;
    last_error: a sentence about the last one."""

    state: WorkerState
    ready: Ready | None
    starts: int
    failures: int
    last_error: str | None


class Supervisor:
    """The serving process's side of one worker.

    Every request that was submitted gets exactly one Output with a `finish`. One whose worker
    dies goes on in the next where it was, as if nothing had been, unless it turns out to be what
    kills workers (`Probation`) or no next one starts: then it ends from here, with reason "error"
    and the counts known so far.
    A worker that dies is started again for as long as the supervisor runs, ever more slowly
    while it keeps dying young.
    """

    def __init__(
        self,
        config: WorkerConfig,
        *,
        command: Sequence[str] = WORKER_COMMAND,
        patience: Patience | None = None,
        clock: Callable[[], float] = time.monotonic,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        """command: starts a worker. clock: in seconds, never goes back. uniform: draws a number
        between two, to spread restarts."""
        self.on_change: Callable[[], None] = _nothing
        self._config = config
        self._command = command
        self._patience = patience or Patience()
        self._clock = clock
        self._uniform = uniform
        self._child: Child | None = None
        self._ready: Ready | None = None
        self._state: WorkerState = "stopped"
        self._starts = 0
        self._failures = 0
        self._failed_starts = 0  # in a row
        self._last_error: str | None = None
        self._traffic = Traffic()
        self._gathering = False  # until the turn of the event loop is over
        self._nonce = 0
        self._silent_beats = 0
        self._ready_at = 0.0
        self._stopping = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    @property
    def live(self) -> int:
        """Requests that were submitted and have not ended."""
        return self._traffic.live

    @property
    def capacity(self) -> int:
        """Requests the worker runs at once; 0 while there is no ready worker."""
        return self._ready.max_sequences if self._ready else 0

    @property
    def ready(self) -> Ready | None:
        """What the worker said of itself; None while there is no ready one."""
        return self._ready

    async def start(self) -> None:
        """Start the worker and wait until it is ready; from then on it is kept running.

        Raises WorkerFailed if it never becomes ready: then nothing is left running.
        """
        first_ready = asyncio.get_running_loop().create_future()
        self._running = asyncio.create_task(self._keep_running(first_ready))
        await asyncio.wait({first_ready, self._running}, return_when=asyncio.FIRST_COMPLETED)
        if not first_ready.done():
            await self._running  # it broke before it could say why: its own fault is raised
        await first_ready

    async def stop(self) -> None:
        """End the worker and finish live requests as errors. Safe to call again."""
        self._stopping.set()
        if self._running is None:
            return
        if self._child is not None and self._ready:
            self._child.send(Shutdown())
            await asyncio.wait({self._running}, timeout=self._patience.stop)
        if self._child is not None:
            self._child.kill()
        await self._running

    def submit(self, request: GenerationRequest) -> Mailbox:
        """Start a request; its outputs come to the mailbox. Raises WorkerUnavailable when
        there is no ready worker, ValueError if a live request has the same id."""
        if self._child is None or self._ready is None:
            raise WorkerUnavailable("no engine is running")
        if request.id in self._traffic:
            raise ValueError(f"request {request.id} is live already")
        mailbox = self._traffic.open(request)
        if not self._gathering:
            self._gathering = True
            asyncio.get_running_loop().call_soon(self._stop_gathering)
            self._send_due()
        return mailbox

    def cancel(self, request_id: str) -> None:
        """Stop a request's work; nothing happens if it has ended."""
        if request_id not in self._traffic:
            return
        self._send_due()
        if self._child is not None and self._traffic.is_sent(request_id):
            self._child.send(Cancel([request_id]))
        else:
            self._traffic.end(request_id, "cancelled")
            self.on_change()

    def _stop_gathering(self) -> None:
        self._gathering = False
        self._send_due()

    def _send_due(self) -> None:
        """The first of a turn of the event loop leaves at once, the others in one message: to wake
        the worker costs more than a request."""
        if self._child is not None and self._ready is not None and (due := self._traffic.due()):
            self._child.send(Submit(due))

    async def probe(self, timeout: float) -> EngineStatus:
        """A reading from the engine's own loop. Raises TimeoutError, or WorkerUnavailable
        when there is no ready worker or it dies meanwhile."""
        if self._child is None or self._ready is None:
            raise WorkerUnavailable("no engine is running")
        self._nonce += 1
        nonce = self._nonce
        self._child.send(Probe(nonce))
        try:
            async with asyncio.timeout(timeout):
                return await self._traffic.ask(nonce)
        finally:
            self._traffic.forget(nonce)

    def status(self) -> WorkerStatus:
        return WorkerStatus(
            state=self._state,
            ready=self._ready,
            starts=self._starts,
            failures=self._failures,
            last_error=self._last_error,
        )

    async def _keep_running(self, first_ready: asyncio.Future[None]) -> None:
        while not self._stopping.is_set():
            self._state = "starting"
            self._starts += 1
            reason = await self._run_once(first_ready)
            if not first_ready.done():
                self._state = "stopped"
                first_ready.set_exception(WorkerFailed(reason))
                return
            if not self._stopping.is_set():
                await self._back_off()
        self._state = "stopped"
        if self.live:  # they were waiting for the next worker
            self._traffic.lose(STOPPED, final=True)
            self.on_change()

    async def _run_once(self, first_ready: asyncio.Future[None]) -> str:
        """Start a worker and serve it until it is gone; why it went, as a sentence."""
        try:
            child = await Child.spawn(self._command, self._config)
        except OSError as error:
            reason = f"the engine process could not be started: {error}"
            return self._note_end(reason)
        log.info("worker_started", pid=child.pid, model=self._config.model, start=self._starts)
        self._child = child
        self._silent_beats = 0
        if self._stopping.is_set():
            child.kill()
        told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        hear = partial(self._hear, child, told, first_ready)
        child.listen(hear)
        watching = asyncio.create_task(self._watch(child))
        exiting = asyncio.create_task(self._await_exit(child, hear))
        reasons = (told, watching, exiting)
        reason = "the engine's supervision was stopped"
        try:
            await asyncio.wait(reasons, return_when=asyncio.FIRST_COMPLETED)
            reason = next(reason.result() for reason in reasons if reason.done())
        except Exception as error:
            log.exception("supervision_fault")
            reason = f"a fault in the engine's supervision ({type(error).__name__})"
        finally:
            reason = self._note_end(reason)
            for pending in reasons:
                pending.cancel()
            await child.close()
        return reason

    def _hear(
        self, child: Child, told: asyncio.Future[str], first_ready: asyncio.Future[None]
    ) -> None:
        """Take in what the worker says; `told` brings the reason if it cannot go on."""
        if told.done():
            return
        try:
            for message in child.receive():
                self._silent_beats = 0
                match message:
                    case Outputs():
                        ended = self._traffic.deliver(message.outputs)
                        self._send_due()
                        if ended:
                            self.on_change()
                    case Status():
                        self._traffic.answer(message)
                    case Ready():
                        self._note_ready(child, message)
                        if not first_ready.done():
                            first_ready.set_result(None)
                    case Failed():
                        told.set_result(message.error)
                        return
        except msgspec.DecodeError as error:
            # The text may hold a part of the message, and callers are told the reason.
            log.error("message_unreadable", error=str(error))
            told.set_result("the engine sent a message that cannot be read")
        except Exception as error:
            told.set_exception(error)

    async def _watch(self, child: Child) -> str:
        """Look for signs of life; returns when there are too few of them."""
        beats_to_start = self._patience.start / self._patience.beat
        while True:
            await asyncio.sleep(self._patience.beat)
            if self._ready is None:
                self._silent_beats += 1
                if self._silent_beats % BEATS_TO_REPORT == 0:
                    log.info("worker_still_starting", pid=child.pid, model=self._config.model)
                if self._silent_beats > beats_to_start:
                    return f"the engine was not ready after {self._patience.start:g} s"
            elif self._traffic.owed:
                self._silent_beats += 1
                if self._silent_beats > self._patience.silent_beats:
                    silence = self._patience.silent_beats * self._patience.beat
                    return f"the engine gave no sign of life for {silence:g} s"
                child.send(Probe(WATCH_NONCE))
            else:
                self._silent_beats = 0

    async def _await_exit(self, child: Child, hear: Callable[[], None]) -> str:
        status = await child.wait()
        hear()  # what it said before it went has come by now, and may tell the reason better
        return f"the engine process is gone: {describe_exit(status)}"

    def _note_ready(self, child: Child, ready: Ready) -> None:
        log.info("worker_ready", pid=ready.pid, model=ready.model, isa=ready.isa)
        self._ready = ready
        self._ready_at = self._clock()
        self._failed_starts = 0
        self._state = "ready"
        if self.live:
            log.warning("requests_resumed", count=self.live)
        self._send_due()
        self.on_change()

    def _note_end(self, reason: str) -> str:
        """The worker is gone: end at once the requests that can't go on with the next one. Returns
        why it went."""
        stopping = self._stopping.is_set()
        self._child = None
        started = self._ready is not None
        self._failed_starts += not started
        if stopping:
            reason = STOPPED
        else:
            lived = self._clock() - self._ready_at if started else 0.0
            self._failures = 1 if lived >= self._patience.stable else self._failures + 1
            self._last_error = reason
            log.error("worker_ended", reason=reason, live=self.live, failures=self._failures)
        self._ready = None
        self._state = "stopped" if stopping else "backing_off"
        # Why a start failed tells of files, and is not for callers.
        told = reason if started or stopping else NOT_STARTED
        self._traffic.lose(told, final=stopping or self._failed_starts >= START_TRIES)
        self.on_change()
        return reason

    async def _back_off(self) -> None:
        """Wait before the next start: not at all after a first death, then ever longer."""
        if self._failures < 2:
            return
        longest = self._patience.backoff_first * 2.0 ** min(self._failures - 2, 30)
        seconds = min(longest, self._patience.backoff_most) * self._uniform(0.5, 1.0)
        log.warning("worker_restart_delayed", seconds=round(seconds, 2), failures=self._failures)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()


def _nothing() -> None:
    """Nobody listens yet."""
