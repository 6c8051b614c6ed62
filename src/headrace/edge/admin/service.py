"""The service itself, administered."""

from __future__ import annotations

import structlog

from headrace import __version__
from headrace.api.admin.service import ServiceView
from headrace.edge.admin.endpoint import Ask
from headrace.edge.services import Services

log = structlog.get_logger("headrace.edge")


class Service:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def show(self, ask: Ask) -> ServiceView:
        gate = self._services.gate
        return ServiceView(
            version=__version__,
            draining=gate.closed,
            requests=gate.inside,
            ledger_backlog=self._services.books.backlog,
        )

    async def drain(self, ask: Ask) -> ServiceView:
        """What is on its way goes on. To do it again changes nothing."""
        return await self._set(ask, closed=True)

    async def undrain(self, ask: Ask) -> ServiceView:
        return await self._set(ask, closed=False)

    async def _set(self, ask: Ask, closed: bool) -> ServiceView:
        self._services.gate.closed = closed
        log.warning("drained" if closed else "undrained", actor=ask.actor)
        return await self.show(ask)
