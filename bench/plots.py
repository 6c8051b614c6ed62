"""Small line charts of one figure against the number of streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

from headrace.load.report import Report
from table import OURS, median

matplotlib.use("agg")
import matplotlib.pyplot as plt

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
