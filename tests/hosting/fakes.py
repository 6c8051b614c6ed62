"""Models that are loaded when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from headrace.edge.deployment import Deployment
from headrace.edge.services import ServedModel
from headrace.fleet.config import WorkerConfig
from headrace.hosting.hosted import Files
from headrace.hosting.models import HostedModels
from headrace.hosting.opened import Sized
from headrace.hosting.plan import Claim
from headrace.hosting.spec import ModelSpec
from headrace.models.version import ModelVersion

SIZES = {"a": 100, "b": 200, "c": 300}
"""Bytes that each takes at most."""


def spec(name: str, version: str = "v1", **fields: Any) -> ModelSpec:
    found = ModelVersion(
        name=name,
        version=version,
        sha256=version,
        path=Path(name),
        size=1,
        mtime_ns=1,
        source="here",
        licence=None,
        formats=(),
        context_length=None,
        installed_at=0.0,
    )
    config = WorkerConfig(path=name, model=name, version=version)
    return ModelSpec(version=found, config=config, **fields)


class FakeFiles:
    def claim(self, spec: ModelSpec) -> Claim:
        size = SIZES[spec.version.name]
        return Claim(spec.label, size, size, False, spec.load == "start")

    def sized(self, spec: ModelSpec) -> Sized:
        served = ServedModel(
            name=spec.version.name,
            version=spec.version.version,
            created=0,
            context_length=1,
            vocab_size=1,
            fingerprint="",
            current=spec.current,
        )
        return Sized(served, SIZES[spec.version.name])

    def words(self, tool_format: str | None) -> Any:
        raise AssertionError("nobody speaks here")


class FakeEngine:
    """`go` lets it start; `fault` makes it fail instead."""

    def __init__(self, spec: ModelSpec, garage: Garage) -> None:
        self._spec = spec
        self._garage = garage

    async def start(self) -> Deployment:
        name = self._spec.version.name
        self._garage.starts.append(self._spec.label)
        await self._garage.gate(name).wait()
        if fault := self._garage.faults.get(name):
            raise fault
        served = FakeFiles().sized(self._spec).served
        return Deployment(served, cast(Any, None), cast(Any, None))

    def drain(self) -> None:
        pass

    async def stop(self, grace: float) -> None:
        await asyncio.sleep(0)
        if self._spec.version.name in self._garage.unstoppable:
            raise OSError("it will not die")
        self._garage.stops.append(self._spec.label)


class Garage:
    """What was done, in order, and what is to happen."""

    def __init__(self) -> None:
        self.starts: list[str] = []
        self.stops: list[str] = []
        self.faults: dict[str, Exception] = {}
        self.unstoppable: set[str] = set()
        self.held: set[str] = set()
        self._gates: dict[str, asyncio.Event] = {}

    def gate(self, name: str) -> asyncio.Event:
        gate = self._gates.setdefault(name, asyncio.Event())
        if name not in self.held:
            gate.set()
        return gate

    def hold(self, name: str) -> None:
        """Loads of it wait until `release`."""
        self.held.add(name)
        self._gates.pop(name, None)

    def release(self, name: str) -> None:
        self.held.discard(name)
        self.gate(name).set()

    def make(
        self, spec: ModelSpec, opened: Callable[[], Awaitable[tuple[Files, ServedModel]]]
    ) -> FakeEngine:
        return FakeEngine(spec, self)

    def models(self, *specs: ModelSpec, memory: int | None = None, **more: Any) -> HostedModels:
        return HostedModels(specs, lambda spec: FakeFiles(), self.make, memory, **more)


def pinned(one: ModelSpec, version: str) -> ModelSpec:
    return replace(spec(one.version.name, version), current=False, load="demand")
