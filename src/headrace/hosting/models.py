"""All models of a service: who is in memory, within one budget."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

import msgspec
import structlog

from headrace.dispatch.errors import Overloaded, Refused, Unavailable, jittered
from headrace.edge.services import ModelStatus, ServedModel, UnknownModel, Use
from headrace.fleet.sizes import mebibytes
from headrace.hosting.hosted import Files, HostedModel, MakeEngine, OpenFiles
from headrace.hosting.plan import plan
from headrace.hosting.spec import ModelSpec
from headrace.routing.menu import Menu

log = structlog.get_logger("headrace.hosting")

LOAD_PATIENCE = 120.0
"""Seconds for which a request waits for a model that is being loaded."""

RETRY_SECONDS = 5.0
"""After a load that failed nobody tries again for so long."""

UNLOAD_GRACE = 30.0
"""Seconds for which requests may finish on a model that is to be unloaded."""


class HostedModels:
    """Loads models when they are asked for, and unloads them when room is needed or they were
    idle for long enough.

    memory: bytes that all engines together may hold; None for no limit. One that is loaded on
    demand counts only while it is in memory; the one that was used longest ago makes room first.
    """

    def __init__(
        self,
        specs: Iterable[ModelSpec],
        open_files: OpenFiles,
        make_engine: MakeEngine,
        memory: int | None = None,
        *,
        patience: float = LOAD_PATIENCE,
    ) -> None:
        self._open_files = open_files
        self._make_engine = make_engine
        self._memory = memory
        self._patience = patience
        self._hosted = {_key(spec): HostedModel(spec, open_files, make_engine) for spec in specs}
        self.menu: Menu[ServedModel] = Menu(())
        self._first_loads: list[asyncio.Task[None]] = []
        self._room = asyncio.Lock()
        self.draining = False
        self._idle_timers: dict[HostedModel, asyncio.TimerHandle] = {}
        self._unloads: dict[asyncio.Task[None], HostedModel] = {}

    async def open(self) -> None:
        """Read what all models are and begin to load those for the start. Raises what opening
        raises, and DoesNotFit."""
        hosted = list(self._hosted.values())
        if self._memory is not None:
            await self._plan(hosted, self._memory)
        for each in hosted:
            if each.spec.load == "start":
                self._first_loads.append(each.load())
        await asyncio.gather(*(each.size() for each in hosted))
        for each in hosted:
            if each.spec.load == "demand":
                each.forget_files()
        self._write_menu()

    async def started(self) -> None:
        """Wait until all that are loaded at the start are ready. Raises what kept one from
        it."""
        await asyncio.gather(*self._first_loads)
        for each in self._hosted.values():
            self._watch_idle(each)

    async def use(self, model: ServedModel, deadline: float | None = None) -> Use:
        """Raises Overloaded where too many wait for it, and Unavailable where it is closed or
        can't be loaded in time. deadline: unix seconds."""
        hosted = self._hosted[model.name, model.version]
        while True:
            if self.draining or hosted.closed:
                message = f"the model {model.name} takes no requests"
                raise Unavailable("draining", message, jittered(1.0))
            if hosted.deployment is not None:
                deployment = hosted.hold()
                break
            await self._wait_for(hosted, deadline)
        if timer := self._idle_timers.pop(hosted, None):
            timer.cancel()
        return Use(deployment, lambda: self._give_back(hosted))

    async def keep(self, specs: Iterable[ModelSpec]) -> None:
        """Have these versions, beside the current ones, and no others: new ones are there to be
        loaded, those that are left out are unloaded when what runs has finished. One that can't
        be opened is left out, and the log says why."""
        wanted = {_key(spec): spec for spec in specs}
        for key, hosted in list(self._hosted.items()):
            if not hosted.spec.current and key not in wanted:
                del self._hosted[key]
                hosted.closed = True  # also for those who wait for it
                self._let_go(hosted)
        self._write_menu()
        for key, spec in wanted.items():
            if key not in self._hosted:
                await self._add(spec)
        self._write_menu()

    def status(self) -> Sequence[ModelStatus]:
        return [hosted.status() for hosted in self._hosted.values()]

    async def load(self, name: str) -> ModelStatus:
        """Have it in memory and open. name: a model's, with or without a version. Raises
        UnknownModel, and Refused where it can't be loaded."""
        hosted = self._find(name)
        hosted.closed = False
        while hosted.deployment is None:
            await self._wait_for(hosted)
        self._watch_idle(hosted)
        return hosted.status()

    async def unload(self, name: str, grace: float = UNLOAD_GRACE) -> ModelStatus:
        """Free its memory, when what runs has finished or `grace` seconds are over. The next
        request loads it again. Raises UnknownModel."""
        hosted = self._find(name)
        await hosted.unload(grace)
        return hosted.status()

    async def close(self, name: str, grace: float = UNLOAD_GRACE) -> ModelStatus:
        """Take no more requests for it until it is loaded by hand, and unload it. Raises
        UnknownModel."""
        hosted = self._find(name)
        hosted.closed = True
        await hosted.unload(grace)
        return hosted.status()

    def drain(self) -> None:
        """Admit nothing more and refuse those who wait; what runs goes on."""
        self.draining = True
        for hosted in self._hosted.values():
            hosted.drain()

    async def stop(self, grace: float) -> None:
        """End everything. Safe to call again."""
        self.drain()
        for timer in self._idle_timers.values():
            timer.cancel()
        everything = {*self._hosted.values(), *self._unloads.values()}
        await asyncio.gather(*(hosted.unload(grace) for hosted in everything))

    async def _plan(self, hosted: Sequence[HostedModel], limit: int) -> None:
        """Give each its part of the budget. One that is alone need not be opened for it."""
        files = await asyncio.gather(*(each.files() for each in hosted)) if hosted[1:] else ()
        specs = planned([each.spec for each in hosted], files, limit)
        for each, spec in zip(hosted, specs, strict=True):
            each.spec = spec

    async def _add(self, spec: ModelSpec) -> None:
        """It may have as much memory as the current version."""
        current = next((one for one in self._hosted.values() if _is_current(one, spec)), None)
        if current is not None and current.spec.config.memory is not None:
            spec = _within(spec, current.spec.config.memory)
        hosted = HostedModel(spec, self._open_files, self._make_engine)
        try:
            await hosted.size()
        except (OSError, ValueError) as error:
            log.error("model_not_kept", model=spec.label, reason=str(error))
            return
        hosted.forget_files()
        self._hosted[_key(spec)] = hosted

    def _write_menu(self) -> None:
        self.menu = Menu(hosted.served for hosted in self._hosted.values())

    def _find(self, name: str) -> HostedModel:
        bare, _, version = name.partition("@")
        for hosted in self._hosted.values():
            own = hosted.spec.version
            if own.name == bare and (own.version == version if version else hosted.spec.current):
                return hosted
        raise UnknownModel(f"no model called {name[:200]!r} is served")

    async def _wait_for(self, hosted: HostedModel, deadline: float | None = None) -> None:
        """Until it was loaded; it may be gone again. Raises Refused."""
        if hosted.waiting >= hosted.spec.max_queue:
            raise Overloaded(
                "queue_full",
                f"{hosted.waiting} requests wait for {hosted.spec.version.name} to be loaded",
                jittered(1.0),
            )
        hosted.waiting += 1
        left = self._patience if deadline is None else deadline - time.time()
        try:
            async with asyncio.timeout(min(self._patience, left)):
                await self._load(hosted)
        except TimeoutError:
            message = f"the model {hosted.spec.version.name} was not loaded in time"
            raise Unavailable("loading", message, jittered(1.0)) from None
        finally:
            hosted.waiting -= 1

    async def _load(self, hosted: HostedModel) -> None:
        async with self._room:
            await hosted.left()
            if hosted.state == "unloaded":
                _refuse_failed(hosted)
                await self._make_room(hosted)
            if hosted.closed or self.draining:
                return
            loading = hosted.load()
        await asyncio.wait({loading})
        if isinstance(error := loading.exception(), Refused):
            raise error
        if error is not None:
            _refuse_failed(hosted)

    async def _make_room(self, hosted: HostedModel) -> None:
        """Raises Unavailable, with nothing unloaded, where there is none to be had."""
        if self._memory is None:
            return
        everything = {*self._hosted.values(), *self._unloads.values()}
        present = [each for each in everything if each.state != "unloaded"]
        excess = hosted.memory + sum(each.memory for each in present) - self._memory
        going: list[HostedModel] = []
        for each in sorted(present, key=lambda each: each.last_used):
            if excess <= 0:
                break
            if each.state == "draining" or (each.idle and each.spec.load == "demand"):
                going.append(each)
                excess -= each.memory
        if excess > 0:
            raise _no_room(hosted, excess)
        await asyncio.gather(*(each.unload(UNLOAD_GRACE) for each in going))

    def _give_back(self, hosted: HostedModel) -> None:
        hosted.give_back()
        self._watch_idle(hosted)

    def _watch_idle(self, hosted: HostedModel) -> None:
        """See to it that a model which nobody uses is unloaded in time."""
        if self.draining or hosted.spec.idle_unload is None or not hosted.idle:
            return
        if hosted in self._idle_timers:
            return
        left = hosted.last_used + hosted.spec.idle_unload - time.monotonic()
        loop = asyncio.get_running_loop()
        self._idle_timers[hosted] = loop.call_later(max(left, 0.0), self._unload_idle, hosted)

    def _unload_idle(self, hosted: HostedModel) -> None:
        self._idle_timers.pop(hosted, None)
        if hosted.idle:
            self._let_go(hosted)

    def _let_go(self, hosted: HostedModel) -> None:
        """Unload it beside everything else."""
        task = asyncio.create_task(hosted.unload(UNLOAD_GRACE))
        self._unloads[task] = hosted
        task.add_done_callback(self._unloads.pop)


def planned(specs: Sequence[ModelSpec], files: Sequence[Files], limit: int) -> list[ModelSpec]:
    """The same with each one's part of the budget. files: of each, where there are several.
    Raises DoesNotFit."""
    if len(specs) == 1:
        return [_within(specs[0], limit)]
    claims = [file.claim(spec) for file, spec in zip(files, specs, strict=True)]
    parts = plan(limit, claims)
    return [_within(spec, parts[spec.label]) for spec in specs]


def _key(spec: ModelSpec) -> tuple[str, str]:
    return spec.version.name, spec.version.version


def _is_current(hosted: HostedModel, spec: ModelSpec) -> bool:
    return hosted.spec.current and hosted.spec.version.name == spec.version.name


def _within(spec: ModelSpec, memory: int) -> ModelSpec:
    return replace(spec, config=msgspec.structs.replace(spec.config, memory=memory))


def _refuse_failed(hosted: HostedModel) -> None:
    """Raises Unavailable if its last load failed a moment ago. The log has the reason, which
    tells of files and is not for callers."""
    left = hosted.failed_at + RETRY_SECONDS - time.monotonic()
    if hosted.error is not None and left > 0:
        message = f"the model {hosted.spec.version.name} could not be loaded"
        raise Unavailable("load_failed", message, left)


def _no_room(hosted: HostedModel, excess: int) -> Unavailable:
    """Which others are in the way is not for callers."""
    log.warning("model_does_not_fit", model=hosted.spec.label, missing_bytes=excess)
    message = (
        f"the model {hosted.spec.version.name} needs {mebibytes(hosted.memory)} of memory, and"
        f" other models are in use: {mebibytes(excess)} are missing"
    )
    return Unavailable("no_memory", message, jittered(2.0))
