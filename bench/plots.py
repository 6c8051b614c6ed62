"""Small line charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib
import numpy as np

from headrace.load.report import Report
from table import OURS, median

matplotlib.use("agg")
import matplotlib.pyplot as plt

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from overload import Figures

COLOURS = ("#0b6e99", "#c2571a", "#7a8a2b", "#7b5ea7", "#6b6b6b")


def draw(
    figures: Mapping[str, Mapping[int, Sequence[Report]]], figure: str, label: str, path: Path
) -> None:
    """A line an engine: medians, and from least to most over the rounds as a band."""
    chart, axes = plt.subplots(figsize=(6.4, 3.8), dpi=110, layout="constrained")
    for (engine, points), colour in zip(figures.items(), COLOURS, strict=False):
        streams = sorted(points)
        values = [[getattr(report, figure) for report in points[n]] for n in streams]
        middle = [median(points[n], figure) for n in streams]
        width = 2.4 if engine == OURS else 1.5
        axes.plot(streams, middle, marker="o", markersize=4, color=colour, lw=width, label=engine)
        low, high = [min(each) for each in values], [max(each) for each in values]
        axes.fill_between(streams, low, high, color=colour, alpha=0.15, lw=0)
    axes.set_xscale("log", base=2)
    axes.set_xticks(streams, [str(n) for n in streams])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("streams at a time")
    axes.set_ylabel(label)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    chart.savefig(path)
    plt.close(chart)


def draw_overload(figures: Figures, target: float, path: Path) -> None:
    """What came, what became of it, how long first tokens took, and what it needed, by time."""
    chart, rows = plt.subplots(4, 1, figsize=(7.2, 8.4), dpi=110, layout="constrained", sharex=True)
    start, end = figures.spike
    rates, firsts, queue, memory = rows
    edges = np.arange(0, max(each.end for each in figures.outcomes) + 5, 5)
    middles = edges[:-1] + 2.5
    answered = [each.end for each in figures.outcomes if each.first is not None]
    refused = [each.end for each in figures.outcomes if each.refused]
    came = [each.start for each in figures.outcomes]
    for times, label, colour in (
        (came, "came", COLOURS[4]),
        (answered, "answered", COLOURS[0]),
        (refused, "refused", COLOURS[1]),
    ):
        rates.plot(middles, np.histogram(times, edges)[0] / 5, color=colour, label=label)
    rates.set_ylabel("requests / s")
    interactive = [
        (each.start, each.first - each.start)
        for each in figures.outcomes
        if each.service_class == "interactive" and each.first is not None
    ]
    firsts.scatter(*zip(*interactive, strict=True), s=4, color=COLOURS[0], label="interactive")
    firsts.axhline(target, color=COLOURS[1], lw=1, ls="--", label="deadline")
    firsts.set_ylabel("first token, s")
    queue.plot(
        [s.at for s in figures.samples], [s.queued for s in figures.samples], color=COLOURS[3]
    )
    queue.set_ylabel("waiting")
    for name, label, colour in (
        ("engine", "engine", COLOURS[2]),
        ("serving", "serving process", COLOURS[0]),
    ):
        values = [getattr(sample, name) for sample in figures.samples]
        memory.plot([s.at for s in figures.samples], values, color=colour, label=label)
    memory.set_ylabel("resident, MiB")
    memory.set_xlabel("seconds")
    for axes in rows:
        _finish(axes, start, end)
    chart.savefig(path)
    plt.close(chart)


def _finish(axes: Axes, start: float, end: float) -> None:
    axes.axvspan(start, end, color=COLOURS[4], alpha=0.08, lw=0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, loc="upper right")
