"""How the engines are, from their own readings at the moment of asking."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headrace.engine.status import EngineStatus
from headrace.fleet.supervisor import WorkerStatus

MODEL = ("model", "version")

GAUGES = {
    "running": ("engine_sequences_running", "Sequences that have a part in steps."),
    "waiting": ("engine_sequences_waiting", "Sequences that wait for the engine."),
    "step_budget": ("engine_step_budget_tokens", "What the last step with prompts could take."),
}
COUNTERS = {
    "steps": ("engine_steps", "Steps."),
    "preemptions": ("engine_preemptions", "Sequences that had to give way."),
    "evictions": ("engine_evictions", "Cached blocks that had to go for others."),
    "prefilled_tokens": ("engine_prefilled_tokens", "Of prompts, computed."),
    "hit_tokens": ("engine_hit_tokens", "Of prompts, taken from the prefix cache."),
    "generated_tokens": ("engine_generated_tokens", "Generated."),
    "forced_tokens": ("engine_forced_tokens", "Generated, of which a grammar left no choice."),
    "proposed_tokens": ("engine_proposed_tokens", "Guessed ahead of the model."),
    "accepted_tokens": ("engine_accepted_tokens", "Guesses that the model then drew."),
}
"""Fields of EngineStatus, their metrics' names and what they are. The counters begin at zero with
every start of a worker, as Prometheus expects of counters."""


@dataclass(frozen=True, slots=True)
class EngineView:
    """model, version: as it is served. reading: None where the engine gave none in time."""

    model: str
    version: str
    worker: WorkerStatus
    reading: EngineStatus | None


def engine_families(views: Iterable[EngineView]) -> Iterable[Metric]:
    views = list(views)
    yield from _workers(views)
    readings = [(_labels(view), view.reading) for view in views if view.reading is not None]
    blocks = GaugeMetricFamily(
        "headrace_engine_blocks", "KV blocks by what holds them.", labels=(*MODEL, "state")
    )
    for labels, reading in readings:
        free, cached = reading.blocks_free, reading.blocks_cached
        blocks.add_metric((*labels, "free"), free)
        blocks.add_metric((*labels, "cached"), cached)
        blocks.add_metric((*labels, "owned"), reading.blocks_total - free - cached)
    yield blocks
    for field, (name, about) in GAUGES.items():
        gauge = GaugeMetricFamily(f"headrace_{name}", about, labels=MODEL)
        for labels, reading in readings:
            gauge.add_metric(labels, getattr(reading, field))
        yield gauge
    for field, (name, about) in COUNTERS.items():
        counter = CounterMetricFamily(f"headrace_{name}", about, labels=MODEL)
        for labels, reading in readings:
            counter.add_metric(labels, getattr(reading, field))
        yield counter


def _workers(views: Iterable[EngineView]) -> Iterable[Metric]:
    up = GaugeMetricFamily(
        "headrace_worker_up", "1 where the engine's loop answered just now.", labels=MODEL
    )
    starts = CounterMetricFamily(
        "headrace_worker_starts", "Worker processes started; the first is no restart.", labels=MODEL
    )
    for view in views:
        up.add_metric(_labels(view), float(view.reading is not None))
        starts.add_metric(_labels(view), view.worker.starts)
    yield up
    yield starts


def _labels(view: EngineView) -> tuple[str, str]:
    return view.model, view.version
