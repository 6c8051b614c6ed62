"""Who waits, for how long, and who was turned away, from the dispatchers' own accounts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from uuid import UUID

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headrace.dispatch.status import DispatchStatus
from headrace.observe.few import MOST, OTHERS

MODEL = ("model", "version")
WHO = (*MODEL, "class", "tenant")


@dataclass(slots=True)
class Crowd:
    """Requests of a tenant in a class, or of several tenants. oldest: seconds."""

    queued: int = 0
    running: int = 0
    oldest: float = 0.0


def queue_families(
    queues: Iterable[tuple[str, str, DispatchStatus]], name_of: Callable[[UUID], str]
) -> Iterable[Metric]:
    """queues: each with its model's name and version."""
    queued = GaugeMetricFamily("headrace_queue_requests", "Requests that wait.", labels=WHO)
    oldest = GaugeMetricFamily(
        "headrace_queue_oldest_seconds", "How long the first of them has waited.", labels=WHO
    )
    running = GaugeMetricFamily("headrace_running_requests", "On the engine.", labels=WHO)
    places = GaugeMetricFamily("headrace_places", "Most on the engine at once.", labels=MODEL)
    long_running = GaugeMetricFamily(
        "headrace_long_running_requests", "On the engine and long.", labels=MODEL
    )
    long_places = GaugeMetricFamily("headrace_long_places", "Most of those.", labels=MODEL)
    sheds = CounterMetricFamily(
        "headrace_sheds",
        "Requests turned away with 529, or 503 for want of an engine.",
        labels=(*MODEL, "class", "reason"),
    )
    for model, version, status in queues:
        places.add_metric((model, version), status.places)
        long_running.add_metric((model, version), status.long_running)
        long_places.add_metric((model, version), status.long_places)
        for (service_class, tenant), crowd in _crowds(status, name_of).items():
            who = (model, version, service_class, tenant)
            queued.add_metric(who, crowd.queued)
            oldest.add_metric(who, crowd.oldest)
            running.add_metric(who, crowd.running)
        for (service_class, reason), count in status.sheds.items():
            sheds.add_metric((model, version, service_class, reason), count)
    return queued, oldest, running, places, long_running, long_places, sheds


def _crowds(status: DispatchStatus, name_of: Callable[[UUID], str]) -> dict[tuple[str, str], Crowd]:
    """By class and tenant; those with the shortest queues as one where there are too many."""
    crowds: dict[tuple[str, str], Crowd] = {}
    ranked = sorted(status.tenants, key=lambda each: (-each.queued, -each.running))
    for rank, each in enumerate(ranked):
        name = name_of(each.tenant) if rank < MOST else OTHERS
        crowd = crowds.setdefault((each.service_class, name), Crowd())
        crowd.queued += each.queued
        crowd.running += each.running
        crowd.oldest = max(crowd.oldest, each.oldest)
    return crowds
