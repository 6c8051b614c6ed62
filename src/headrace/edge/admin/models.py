"""Models in memory, administered."""

from __future__ import annotations

import structlog

from headrace.api.admin.models import HostedModelList, ModelView, Unload
from headrace.api.openai.errors import no_such
from headrace.edge.admin.endpoint import Ask
from headrace.edge.services import Models, ModelStatus

log = structlog.get_logger("headrace.edge")


class HostedModels:
    def __init__(self, models: Models) -> None:
        self._models = models

    async def list(self, ask: Ask) -> HostedModelList:
        return HostedModelList(data=[_view(status) for status in self._models.status()])

    async def load(self, ask: Ask) -> ModelView:
        """When it is in memory and takes requests."""
        name = self._known(ask.path["name"])
        log.info("model_load_asked", model=name, actor=ask.actor)
        return _view(await self._models.load(name))

    async def unload(self, ask: Ask) -> ModelView:
        """When it is gone."""
        name, body = self._known(ask.path["name"]), ask.body
        log.info("model_unload_asked", model=name, close=body.close, actor=ask.actor)
        return _view(await self._gone(name, body))

    async def _gone(self, name: str, body: Unload) -> ModelStatus:
        unload = self._models.close if body.close else self._models.unload
        return await unload(name, body.grace_seconds)

    def _known(self, name: str) -> str:
        for status in self._models.status():
            model = status.model
            if name == f"{model.name}@{model.version}" or (name == model.name and model.current):
                return name
        raise no_such(f"No model called '{name[:200]}' is served.")


def _view(status: ModelStatus) -> ModelView:
    model, deployment = status.model, status.deployment
    dispatch = None if deployment is None else deployment.places.status()
    return ModelView(
        name=model.name,
        version=model.version,
        tier=model.tier,
        context_length=model.context_length,
        state=status.state,
        load=status.load,
        closed=status.closed,
        memory_bytes=status.memory,
        error=status.error,
        requests=status.users,
        queued=0 if dispatch is None else dispatch.queued,
        running=0 if dispatch is None else dispatch.running,
    )
