"""Versions that are kept because tenants are pinned to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

import structlog
from sqlalchemy import Connection

from headrace.access.pins import list_pins
from headrace.access.revision import Change
from headrace.hosting.models import HostedModels
from headrace.hosting.spec import ModelSpec
from headrace.store.database import Database
from headrace.store.errors import DatabaseUnavailable

log = structlog.get_logger("headrace.hosting")

SpecOfPin = Callable[[str, str], ModelSpec | None]
"""How a version of a served model is served, if it is installed and not the current one."""


def pinned_specs(pins: Iterable[tuple[str, str]], spec_of_pin: SpecOfPin) -> list[ModelSpec]:
    """Of each model and version once. It reads the catalogue."""
    found = [spec_of_pin(model, version) for model, version in sorted(set(pins))]
    return [spec for spec in found if spec is not None]


def read_pins(connection: Connection) -> set[tuple[str, str]]:
    return {(pin.model, pin.version) for pin in list_pins(connection)}


class Pins:
    """Sees to it that what tenants are pinned to is there, until the last pin goes."""

    def __init__(self, database: Database, models: HostedModels, spec_of_pin: SpecOfPin) -> None:
        self._database = database
        self._models = models
        self._spec_of_pin = spec_of_pin
        self._changed = asyncio.Event()
        self._known: set[tuple[str, str]] = set()
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Raises DatabaseUnavailable."""
        await self._refresh()
        self._watching = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    def hear(self, changes: Sequence[Change]) -> None:
        """Look again after a change that may have been one of a pin."""
        if any(change.kind in ("tenant", "everything") for change in changes):
            self._changed.set()

    async def _watch(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._refresh()
            except DatabaseUnavailable as error:
                log.warning("pins_delayed", reason=str(error))

    async def _refresh(self) -> None:
        pins = await self._database.run(read_pins)
        if pins != self._known:
            specs = await asyncio.to_thread(pinned_specs, pins, self._spec_of_pin)
            await self._models.keep(specs)
            self._known = pins
