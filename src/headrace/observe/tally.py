"""Counts and distributions that cost a request next to nothing.

prometheus-client writes the exposition, but its own counters take a lock for every bucket of every
observation. These live on one event loop: to add is a look-up and an addition.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.utils import floatToGoString


class Tally:
    """A counter: numbers that only grow, by the values of its labels."""

    def __init__(self, name: str, about: str, labels: Sequence[str]) -> None:
        self._name, self._about, self._labels = name, about, labels
        self._totals: dict[tuple[str, ...], float] = {}

    def add(self, labels: tuple[str, ...], amount: float = 1.0) -> None:
        self._totals[labels] = self._totals.get(labels, 0.0) + amount

    def family(self) -> CounterMetricFamily:
        family = CounterMetricFamily(self._name, self._about, labels=self._labels)
        for labels, total in self._totals.items():
            family.add_metric(labels, total)
        return family


class Spread:
    """A histogram. bounds: upper edges of its buckets, in ascending order."""

    def __init__(
        self, name: str, about: str, labels: Sequence[str], bounds: Sequence[float]
    ) -> None:
        self._name, self._about, self._labels = name, about, labels
        self._bounds = tuple(bounds)
        self._names = [*map(floatToGoString, bounds), "+Inf"]
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}

    def observe(self, labels: tuple[str, ...], value: float) -> None:
        counts = self._counts.get(labels)
        if counts is None:
            counts = self._counts[labels] = [0] * len(self._names)
            self._sums[labels] = 0.0
        counts[bisect_left(self._bounds, value)] += 1
        self._sums[labels] += value

    def family(self) -> HistogramMetricFamily:
        family = HistogramMetricFamily(self._name, self._about, labels=self._labels)
        for labels, counts in self._counts.items():
            below, buckets = 0, []
            for name, count in zip(self._names, counts, strict=True):
                below += count
                buckets.append((name, below))
            family.add_metric(labels, buckets, self._sums[labels])
        return family
