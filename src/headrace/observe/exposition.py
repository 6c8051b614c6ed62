"""Metrics as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from headrace import __version__


class Gathered:
    """Families that were gathered already, as an encoder wants to collect them."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Sequence[Metric]:
        return self._families


class Exposition:
    """Writes families in the format that an `accept` header asks for."""

    def __init__(self) -> None:
        self._process = ProcessCollector(registry=CollectorRegistry())

    def write(self, families: Iterable[Metric], accept: str) -> tuple[bytes, str]:
        """The text, the process's own numbers with it, and its content type."""
        build = GaugeMetricFamily("headrace_build_info", "Which release runs.", labels=["version"])
        build.add_metric([__version__], 1)
        encode, content_type = choose_encoder(accept)
        return encode(Gathered([build, *self._process.collect(), *families])), content_type
