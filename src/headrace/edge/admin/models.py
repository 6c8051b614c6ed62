"""Models in memory, administered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from headrace.api.admin.models import HostedModelList, ModelView
from headrace.api.openai.errors import no_such
from headrace.edge.admin.endpoint import Ask
from headrace.edge.services import Models, ModelStatus, UnknownModel

log = structlog.get_logger("headrace.edge")


class HostedModels:
    def __init__(self, models: Models) -> None:
        self._models = models

    async def list(self, ask: Ask) -> HostedModelList:
        return HostedModelList(data=[_view(status) for status in self._models.status()])

    async def load(self, ask: Ask) -> ModelView:
        """When it is in memory and takes requests."""
        name = ask.path["name"]
        log.info("model_load_asked", model=name[:200], actor=ask.actor)
        with _unknown_as_404():
            return _view(await self._models.load(name))

    async def unload(self, ask: Ask) -> ModelView:
        """When it is gone."""
        name, body = ask.path["name"], ask.body
        log.info("model_unload_asked", model=name[:200], close=body.close, actor=ask.actor)
        unload = self._models.close if body.close else self._models.unload
        with _unknown_as_404():
            return _view(await unload(name, body.grace_seconds))


@contextmanager
def _unknown_as_404() -> Iterator[None]:
    try:
        yield
    except UnknownModel as unknown:
        message = str(unknown)
        raise no_such(f"{message[:1].upper()}{message[1:]}.") from None


def _view(status: ModelStatus) -> ModelView:
    model, deployment = status.model, status.deployment
    dispatch = None if deployment is None else deployment.places.status()
    worker = None if dispatch is None else dispatch.worker
    fault = None if worker is None or worker.state == "ready" else worker.last_error
    return ModelView(
        name=model.name,
        version=model.version,
        tier=model.tier,
        context_length=model.context_length,
        state=status.state,
        load=status.load,
        closed=status.closed,
        memory_bytes=status.memory,
        error=status.error or fault,
        requests=status.users,
        queued=0 if dispatch is None else dispatch.queued,
        running=0 if dispatch is None else dispatch.running,
    )
