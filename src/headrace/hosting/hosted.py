"""One version of a model: in memory or not, and on the way between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from headrace.dispatch.errors import Unavailable
from headrace.edge.deployment import Deployment
from headrace.edge.services import ModelState, ModelStatus, ServedModel
from headrace.hosting.opened import Sized
from headrace.hosting.plan import Claim
from headrace.hosting.spec import ModelSpec
from headrace.hosting.words import Words

log = structlog.get_logger("headrace.hosting")


class Files(Protocol):
    """`hosting.opened.OpenedModel`."""

    def claim(self, spec: ModelSpec) -> Claim: ...

    def sized(self, spec: ModelSpec) -> Sized: ...

    def words(self, tool_format: str | None) -> Words: ...


class Engine(Protocol):
    """`hosting.running.RunningModel`."""

    async def start(self) -> Deployment: ...

    def drain(self) -> None: ...

    async def stop(self, grace: float) -> None: ...


OpenFiles = Callable[[ModelSpec], Files]
"""Blocks for a while."""

MakeEngine = Callable[[ModelSpec, Callable[[], Awaitable[tuple[Files, ServedModel]]]], Engine]


class HostedModel:
    """unloaded → loading → ready → draining → unloaded, and back from loading where that fails.

    users: requests that hold it; waiting: those that wait for it. Neither is unloaded under.
    closed: it takes no requests. error: why the last load failed.
    """

    def __init__(self, spec: ModelSpec, open_files: OpenFiles, make_engine: MakeEngine) -> None:
        self.spec = spec
        self.state: ModelState = "unloaded"
        self.closed = False
        self.error: str | None = None
        self.users = self.waiting = 0
        self.last_used = self.failed_at = float("-inf")
        self.deployment: Deployment | None = None
        self._open_files = open_files
        self._make_engine = make_engine
        self._files: asyncio.Future[Files] | None = None
        self._sized: Sized | None = None
        self._engine: Engine | None = None
        self._starting: asyncio.Task[Deployment] | None = None
        self._changing: asyncio.Task[None] | None = None
        self._free = asyncio.Event()

    @property
    def served(self) -> ServedModel:
        """Once it is sized."""
        assert self._sized is not None
        return self._sized.served

    @property
    def memory(self) -> int:
        """Bytes that its process holds at most when it is loaded. Once it is sized."""
        assert self._sized is not None
        return self._sized.memory

    @property
    def idle(self) -> bool:
        return self.state == "ready" and not self.users and not self.waiting

    async def files(self) -> Files:
        """Read once for all that need them before the model is loaded."""
        if self._files is None:
            self._files = asyncio.ensure_future(asyncio.to_thread(self._open_files, self.spec))
        return await asyncio.shield(self._files)

    async def size(self) -> None:
        """Find out what it is and how much it takes. Raises what opening raises, and
        DoesNotFit."""
        if self._sized is None:
            files = await self.files()
            self._sized = files.sized(self.spec)

    def forget_files(self) -> None:
        """Until they are needed again: metadata of a large vocabulary take tens of MB."""
        self._files = None

    def load(self) -> asyncio.Task[None]:
        """Begin to load it if it is unloaded, or join in the change that is under way. A load
        raises whatever kept it from being loaded."""
        if self.state == "unloaded":
            self.state = "loading"
            self._changing = asyncio.create_task(self._load())
            self._changing.add_done_callback(_seen)
        assert self._changing is not None
        return self._changing

    async def unload(self, grace: float) -> None:
        """Let those who hold it finish for `grace` seconds, then free its memory. New ones are
        let in again when it is gone. Safe to call in every state."""
        while self.state != "unloaded":
            if self.state == "ready":
                self.state = "draining"
                self.deployment = None
                self._changing = asyncio.create_task(self._unload(grace))
            assert self._changing is not None
            await asyncio.wait({self._changing})

    async def left(self) -> None:
        """Wait until it is gone if it is going."""
        while self.state == "draining" and self._changing is not None:
            await asyncio.wait({self._changing})

    def hold(self) -> Deployment:
        """It stays in memory until `give_back`."""
        assert self.deployment is not None
        self.users += 1
        return self.deployment

    def give_back(self) -> None:
        self.users -= 1
        self.last_used = time.monotonic()
        if not self.users:
            self._free.set()

    def drain(self) -> None:
        """Refuse all who wait for it, for the end of the service."""
        if self._engine is not None:
            self._engine.drain()
        if self.state == "loading" and self._starting is not None:
            self._starting.cancel()

    def status(self) -> ModelStatus:
        return ModelStatus(
            model=self.served,
            state=self.state,
            load=self.spec.load,
            closed=self.closed,
            memory=self.memory,
            error=self.error,
            users=self.users,
            deployment=self.deployment,
        )

    async def _load(self) -> None:
        began = time.monotonic()
        engine = self._engine = self._make_engine(self.spec, self._opened)
        self._starting = asyncio.create_task(engine.start())
        await asyncio.wait({self._starting})
        if self._starting.cancelled() or self._starting.exception():
            try:
                await engine.stop(0.0)
            finally:
                self._engine = None
                self._note_failure(self._starting)
            self._starting.result()
        self.deployment = self._starting.result()
        self.error = None
        self.last_used = time.monotonic()
        self.state = "ready"
        self.forget_files()
        log.info("model_loaded", model=self.spec.label, seconds=round(self.last_used - began, 2))

    def _note_failure(self, starting: asyncio.Task[Deployment]) -> None:
        """Raises Refused where the service ends."""
        self.state = "unloaded"
        if starting.cancelled():
            raise Unavailable("draining", "the service is shutting down", 1.0)
        error = starting.exception()
        self.error, self.failed_at = str(error) or repr(error), time.monotonic()
        log.error("model_not_loaded", model=self.spec.label, reason=self.error)

    async def _unload(self, grace: float) -> None:
        assert self._engine is not None
        try:
            async with asyncio.timeout(grace):
                while self.users:
                    self._free.clear()
                    await self._free.wait()
        except TimeoutError:
            pass
        try:
            await self._engine.stop(0.0)
        finally:
            self._engine = None
            self.state = "unloaded"
        log.info("model_unloaded", model=self.spec.label)

    async def _opened(self) -> tuple[Files, ServedModel]:
        files = await self.files()
        await self.size()
        return files, self.served


def _seen(task: asyncio.Task[None]) -> None:
    """A load that nobody waits for may fail too: its error is kept."""
    if not task.cancelled():
        task.exception()
