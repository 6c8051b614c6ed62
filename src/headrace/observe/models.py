"""Which models are in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily, Metric

MODEL = ("model", "version")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelView:
    """memory: bytes its engine holds at most when it is loaded. requests: that are on their way
    to it or on it."""

    model: str
    version: str
    state: str
    memory: int
    requests: int


def model_families(views: Iterable[ModelView]) -> Iterable[Metric]:
    state = GaugeMetricFamily(
        "headrace_model_state", "1 for the state it is in.", labels=(*MODEL, "state")
    )
    memory = GaugeMetricFamily(
        "headrace_model_memory_bytes", "Held at most, if it is in memory.", labels=MODEL
    )
    requests = GaugeMetricFamily(
        "headrace_model_requests", "On their way to the model or on it.", labels=MODEL
    )
    for view in views:
        labels = (view.model, view.version)
        state.add_metric((*labels, view.state), 1)
        memory.add_metric(labels, 0 if view.state == "unloaded" else view.memory)
        requests.add_metric(labels, view.requests)
    return state, memory, requests
