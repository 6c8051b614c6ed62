from __future__ import annotations

import pytest

from headrace.load.client import Timing
from headrace.load.report import summarise


def timing(start: float, arrivals: list[float], end: float, tokens: int) -> Timing:
    return Timing(start=start, arrivals=arrivals, end=end, prompt_tokens=10, tokens=tokens)


def test_rates_are_over_the_whole_run() -> None:
    report = summarise([timing(0, [1, 2, 3], 3, 3), timing(1, [2, 4], 5, 2)])
    assert report.requests == 2
    assert report.seconds == 5
    assert (report.prompt_tokens, report.output_tokens) == (20, 5)
    assert report.output_rate == 1
    assert report.total_rate == 5


def test_latencies_are_in_milliseconds() -> None:
    report = summarise([timing(0, [0.5, 0.6, 0.7, 1.7], 2, 4), timing(0, [0.3], 2, 1)])
    assert report.ttft_p50 == 500
    assert report.itl_p50 == pytest.approx(100)
    assert report.itl_p99 == pytest.approx(1000)


def test_a_stream_without_text_counts_its_tokens_only() -> None:
    report = summarise([timing(0, [], 2, 4)])
    assert report.output_rate == 2
    assert (report.ttft_p50, report.itl_p50) == (0, 0)


def test_nothing_finished() -> None:
    with pytest.raises(ValueError, match="no request"):
        summarise([])
