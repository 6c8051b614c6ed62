"""Whether the process lives, and whether its engine makes progress."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from headrace import __version__
from headrace.edge.responses import json_response
from headrace.edge.services import ModelStatus, Services
from headrace.fleet.errors import WorkerUnavailable

PROBE_SECONDS = 5.0

ENDED = "the engine has ended, and the next one is not ready; the service's log tells why"
"""In place of the engine's own words, which may name files: whoever asks has no key."""

_OF_ALL = ("dispatch", "engine", "memory")
"""What stands on its own too, of the default model."""


class HealthEndpoint:
    """Open to everyone: balancers have no key. Tells numbers, and nothing about callers."""

    def __init__(self, services: Services) -> None:
        self._models = services.models
        self._gate = services.gate
        self._books = services.books

    async def live(self, request: Request) -> Response:
        """200 as long as the process answers."""
        return json_response({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """200 if every model that is loaded at the start is in memory, its engine's own loop gave a
        reading, and charges can be written down; else 503 with the first reason. What is told of
        the default model stands on its own too."""
        models = await asyncio.gather(*map(_reading, self._models.status()))
        reasons = [model["reason"] for model in models if model["needed"] and "reason" in model]
        if self._books.fault is not None:
            reasons.insert(0, self._books.fault.brief)
        if self._gate.closed:
            reasons.insert(0, "the service admits nothing new for now")
        if self._models.draining:
            reasons.insert(0, "the service is shutting down")
        for model in models:
            del model["needed"]
        first = {name: models[0][name] for name in _OF_ALL if name in models[0]}
        if reasons:
            body = {"status": "unavailable", "reason": reasons[0], **first, "models": models}
            return json_response(body, 503)
        return json_response({"status": "ready", **first, "models": models})

    async def index(self, request: Request) -> Response:
        """A hint for whoever opens the address in a browser."""
        names = [status.model.name for status in self._models.status()]
        return json_response(
            {
                "service": "headrace",
                "version": __version__,
                "model": names[0],
                "models": list(dict.fromkeys(names)),
                "endpoints": [
                    "/v1/chat/completions",
                    "/v1/completions",
                    "/v1/messages",
                    "/v1/models",
                    "/healthz",
                    "/readyz",
                ],
            }
        )


async def _reading(status: ModelStatus) -> dict[str, Any]:
    """How a model is; `needed` is whether the service is not ready without it."""
    told: dict[str, Any] = {
        "name": status.model.name,
        "version": status.model.version,
        "state": status.state,
        "needed": status.load == "start" and not status.closed and status.state != "unloaded",
        "memory": {"limit_bytes": status.memory},
    }
    if status.deployment is None:
        waits = status.state == "loading"
        return told | ({"reason": "the engine is loading the model"} if waits else {})
    places = status.deployment.places
    dispatch = places.status()
    told["dispatch"] = {"queued": dispatch.queued, "running": dispatch.running}
    try:
        if dispatch.draining:
            raise WorkerUnavailable("the service is shutting down")
        told["engine"] = await places.probe(PROBE_SECONDS)
    except TimeoutError:
        told["reason"] = f"the engine gave no answer within {PROBE_SECONDS:g} s"
    except WorkerUnavailable as error:
        told["reason"] = ENDED if dispatch.worker.last_error else str(error)
        if dispatch.worker.state == "starting" and not dispatch.worker.last_error:
            told["reason"] = "the engine is loading the model"
    return told
