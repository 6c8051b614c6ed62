"""Whether the process lives, and whether its engine makes progress."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from headrace import __version__
from headrace.edge.responses import json_response
from headrace.edge.services import Services
from headrace.fleet.errors import WorkerUnavailable

PROBE_SECONDS = 5.0


class HealthEndpoint:
    """Open to everyone: balancers have no key. Tells numbers, and nothing about callers."""

    def __init__(self, services: Services) -> None:
        self._router = services.router

    async def live(self, request: Request) -> Response:
        """200 as long as the process answers."""
        return json_response({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """200 with a reading that the engine's own loop gave, else 503 with the reason."""
        places = self._router.deployments()[0].places
        status = places.status()
        waiting = {"queued": status.queued, "running": status.running}
        try:
            if status.draining:
                raise WorkerUnavailable("the service is shutting down")
            reading = await places.probe(PROBE_SECONDS)
        except TimeoutError:
            reason = f"the engine gave no answer within {PROBE_SECONDS:g} s"
        except WorkerUnavailable as error:
            reason = status.worker.last_error or str(error)
            if status.worker.state == "starting" and not status.worker.last_error:
                reason = "the engine is loading the model"
        else:
            worker = status.worker.ready
            memory = {"limit_bytes": None if worker is None else worker.memory}
            return json_response(
                {"status": "ready", "dispatch": waiting, "engine": reading, "memory": memory}
            )
        return json_response({"status": "unavailable", "reason": reason, "dispatch": waiting}, 503)

    async def index(self, request: Request) -> Response:
        """A hint for whoever opens the address in a browser."""
        return json_response(
            {
                "service": "headrace",
                "version": __version__,
                "model": self._router.deployments()[0].model.name,
                "endpoints": [
                    "/v1/chat/completions",
                    "/v1/completions",
                    "/v1/models",
                    "/healthz",
                    "/readyz",
                ],
            }
        )
