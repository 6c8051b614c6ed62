"""`GET /metrics`, for Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily, Metric
from starlette.requests import Request
from starlette.responses import Response

from headrace.dispatch.status import DispatchStatus
from headrace.edge.authentication import ADMIN, authenticate
from headrace.edge.deployment import Deployment
from headrace.edge.services import ModelStatus, Services
from headrace.fleet.errors import WorkerUnavailable
from headrace.observe.engines import EngineView, engine_families
from headrace.observe.exposition import Exposition
from headrace.observe.models import ModelView, model_families
from headrace.observe.queues import queue_families
from headrace.observe.quotas import quota_families

PROBE_SECONDS = 1.0
"""For an engine's reading; one that gives none in time is not up."""


class MetricsEndpoint:
    """Numbers about the service and names of models and tenants; never a key or a prompt. Open to
    everyone who reaches the address, or for keys with the scope admin, as it is set."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._exposition = Exposition()

    async def show(self, request: Request) -> Response:
        if not self._services.open_metrics:
            await authenticate(request.scope, self._services.keys, ADMIN)
        models = self._services.models.status()
        loaded = [status.deployment for status in models if status.deployment is not None]
        engines = await asyncio.gather(*map(_engine_view, loaded))
        families = [
            *self._own(),
            *model_families(map(_model_view, models)),
            *engine_families(engines),
            *queue_families(map(_queue, loaded), self._services.meter.name_of),
            *quota_families(self._services.tally),
        ]
        accept = request.headers.get("accept", "")
        text, content_type = await asyncio.to_thread(self._exposition.write, families, accept)
        return Response(text, headers={"content-type": content_type})

    def _own(self) -> Iterable[Metric]:
        yield from self._services.meter.families()
        backlog = "Entries that wait to be written into the books."
        books = self._services.books
        yield GaugeMetricFamily("headrace_ledger_backlog", backlog, books.backlog)
        failing = "Whether the database can't be written now."
        yield GaugeMetricFamily("headrace_ledger_failing", failing, books.fault is not None)


async def _engine_view(deployment: Deployment) -> EngineView:
    model, status = deployment.model, deployment.places.status()
    try:
        reading = await deployment.places.probe(PROBE_SECONDS)
    except (TimeoutError, WorkerUnavailable):
        return EngineView(model.name, model.version, status.worker, None)
    return EngineView(model.name, model.version, status.worker, reading)


def _model_view(status: ModelStatus) -> ModelView:
    return ModelView(
        model=status.model.name,
        version=status.model.version,
        state=status.state,
        memory=status.memory,
        requests=status.users,
    )


def _queue(deployment: Deployment) -> tuple[str, str, DispatchStatus]:
    model = deployment.model
    return model.name, model.version, deployment.places.status()
