from __future__ import annotations

from floor import Floor
from headrace.load.report import Report
from headrace.load.workload import Workload
from table import lines, ratio_to_best, share_of_floor

RATE = Workload(title="many", streams=1, requests=1, output=1)
TIME = Workload(title="long", streams=1, requests=1, output=1, judged_by="ttft_p50")
FLOOR = Floor(output_rate=400, ttft_p50=50, itl_p50=1)


def report(rate: float, ttft: float = 100) -> Report:
    return Report(
        requests=1,
        seconds=1,
        prompt_tokens=1,
        output_tokens=1,
        output_rate=rate,
        total_rate=2 * rate,
        ttft_p50=ttft,
        ttft_p99=ttft,
        itl_p50=3,
        itl_p99=4,
    )


def test_the_best_peer_is_by_the_median_of_the_workloads_own_figure() -> None:
    reports = {
        "headrace": [report(100, 40), report(200, 50), report(900, 60)],
        "one": [report(50, 100), report(50, 100), report(999, 1)],
        "other": [report(80, 200)],
    }
    assert ratio_to_best(RATE, reports) == 200 / 80
    assert ratio_to_best(TIME, reports) == 50 / 100


def test_no_ratio_without_ours_or_a_peer() -> None:
    assert ratio_to_best(RATE, {"one": [report(50)]}) is None
    assert ratio_to_best(RATE, {"headrace": [report(50)]}) is None
    assert ratio_to_best(RATE, {"headrace": [report(50)], "one": []}) is None
    assert ratio_to_best(RATE, {"headrace": [], "one": [report(50)]}) is None


def test_the_share_of_the_floor_is_one_on_it() -> None:
    assert share_of_floor(RATE, [report(100)], FLOOR) == 0.25
    assert share_of_floor(TIME, [report(100, ttft=50)], FLOOR) == 1


def test_the_table_has_a_row_an_engine_and_the_floor() -> None:
    reports = {"headrace": [report(200)], "one": [report(100)], "other": []}
    table = list(lines({"W": RATE}, {"W": reports}, {"W": FLOOR}))
    assert len({line.count("|") for line in table}) == 1
    ours, one, other, best = table[2:]
    assert "2.00 x" in ours and "50 %" in ours
    assert " x |" not in one and "25 %" in one
    assert "no result" in other
    assert "| floor | 400 |" in best
