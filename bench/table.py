"""The results as a table: every engine's figures, ours against the best peer and the floor."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from floor import Floor
from headrace.load.report import Report
from headrace.load.workload import Workload

Reports = Mapping[str, Sequence[Report]]
"""Engine -> one report a round; none where the engine refuses the workload or always fails."""

OURS = "headrace"
COLUMNS = ("workload", "engine", "out tok/s", "total tok/s", "TTFT p50 ms", "ITL p50 ms")
COLUMNS += ("ITL p99 ms", "against best peer", "of the floor")


def median(reports: Sequence[Report], figure: str) -> float:
    return statistics.median(getattr(report, figure) for report in reports)


def ratio_to_best(workload: Workload, reports: Reports) -> float | None:
    """Ours over the best peer's in the figure the workload is judged by: over 1 is a better
    rate, under 1 a better time. None without ours or a peer."""
    figure = workload.judged_by
    medians = {engine: median(each, figure) for engine, each in reports.items() if each}
    ours = medians.pop(OURS, None)
    if ours is None or not medians:
        return None
    best = max if figure == "output_rate" else min
    return ours / best(medians.values())


def share_of_floor(workload: Workload, reports: Sequence[Report], floor: Floor) -> float:
    """How near the machine's best the reports come: 1 is on the floor."""
    figure = workload.judged_by
    reached, best = median(reports, figure), getattr(floor, figure)
    return reached / best if figure == "output_rate" else best / reached


def lines(
    known: Mapping[str, Workload],
    results: Mapping[str, Reports],
    floors: Mapping[str, Floor],
) -> Iterator[str]:
    """A Markdown table. Workloads without a floor show none."""
    yield _line(COLUMNS)
    yield _line(["---"] * len(COLUMNS))
    for name, reports in results.items():
        title = f"{name}: {known[name].title}"
        floor = floors.get(name)
        for engine, each in reports.items():
            cells = _figures(each) if each else ["no result", *[""] * 4]
            share = share_of_floor(known[name], each, floor) if each and floor else None
            ratio = ratio_to_best(known[name], reports) if engine == OURS else None
            yield _line([title, engine, *cells, _number(ratio, "x"), _percent(share)])
        if floor:
            best = [f"{floor.output_rate:.0f}", "", f"{floor.ttft_p50:.0f}"]
            yield _line([title, "floor", *best, f"{floor.itl_p50:.2f}", "", "", ""])


def _figures(reports: Sequence[Report]) -> list[str]:
    return [
        f"{median(reports, 'output_rate'):.1f}",
        f"{median(reports, 'total_rate'):.0f}",
        f"{median(reports, 'ttft_p50'):.0f}",
        f"{median(reports, 'itl_p50'):.2f}",
        f"{median(reports, 'itl_p99'):.2f}",
    ]


def _number(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:.2f} {unit}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.0f} %"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
