"""A model in memory: its worker, its queue, and what makes prompts for it."""

from __future__ import annotations

import asyncio
import contextlib
from array import array
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from headrace.dispatch.dispatcher import Dispatcher
from headrace.dispatch.errors import Unavailable
from headrace.edge.aside import Aside
from headrace.edge.deployment import Deployment
from headrace.edge.plan import Planner
from headrace.edge.services import ServedModel
from headrace.engine.request import GenerationRequest, SamplingParams, StopConditions
from headrace.fleet.supervisor import Supervisor
from headrace.hosting.hosted import Files
from headrace.hosting.spec import ModelSpec

Opened = Callable[[], Awaitable[tuple[Files, ServedModel]]]
"""Brings a model's files, which are being read meanwhile."""


@dataclass(frozen=True, slots=True)
class Workshop:
    """What models share in this process. published: texts whose cache all tenants share."""

    aside: Aside
    published: tuple[str, ...] = ()


class RunningModel:
    """Starts once, stops once."""

    def __init__(self, spec: ModelSpec, opened: Opened, workshop: Workshop) -> None:
        self._spec = spec
        self._opened = opened
        self._workshop = workshop
        self._dispatcher = Dispatcher(Supervisor(spec.config), spec.policies)
        self._starting: asyncio.Task[None] | None = None
        self._planner: Planner | None = None

    async def start(self) -> Deployment:
        """The worker loads the weights while this process makes ready to speak to it. Raises what
        either does; `stop` is to be called then too."""
        self._starting = asyncio.create_task(self._dispatcher.start())
        files, served = await self._opened()
        words = await asyncio.to_thread(files.words, self._spec.tool_format)
        planner = self._planner = Planner(
            served,
            words.prompts,
            words.tokenizer,
            words.compiler,
            self._workshop.aside,
            self._workshop.published,
        )
        planner.open()
        await asyncio.shield(self._starting)
        with contextlib.suppress(Unavailable):  # told to stop meanwhile
            await _warm_up(self._dispatcher)
        return Deployment(served, planner, self._dispatcher)

    def drain(self) -> None:
        self._dispatcher.drain()

    async def stop(self, grace: float) -> None:
        """Safe to call again."""
        await self._dispatcher.stop(grace)
        if self._starting is not None:
            await asyncio.gather(self._starting, return_exceptions=True)
        if self._planner is not None:
            self._planner.close()


async def _warm_up(dispatcher: Dispatcher) -> None:
    """Two steps, so that the first caller finds weights in memory and threads awake."""
    request = GenerationRequest(
        id="warm-up",
        prompt=array("i", [0] * 8),
        sampling=SamplingParams(temperature=0.0),
        stopping=StopConditions(max_tokens=2),
    )
    async for _ in await dispatcher.place(request):
        pass
