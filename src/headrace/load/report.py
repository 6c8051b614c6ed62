"""What a run of a workload came to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from headrace.load.client import Timing


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Rates in tokens per second over the whole run; times in milliseconds.

    ttft: from sending a request to its first event. itl: between two events of a stream.
    """

    requests: int
    seconds: float
    prompt_tokens: int
    output_tokens: int
    output_rate: float
    total_rate: float
    ttft_p50: float
    ttft_p99: float
    itl_p50: float
    itl_p99: float


def summarise(timings: Sequence[Timing]) -> Report:
    """Raises ValueError if there are no timings."""
    if not timings:
        raise ValueError("no request finished")
    seconds = max(t.end for t in timings) - min(t.start for t in timings)
    prompt = sum(t.prompt_tokens for t in timings)
    output = sum(t.tokens for t in timings)
    first = [t.arrivals[0] - t.start for t in timings if t.arrivals]
    gaps = [b - a for t in timings for a, b in zip(t.arrivals, t.arrivals[1:], strict=False)]
    return Report(
        requests=len(timings),
        seconds=seconds,
        prompt_tokens=prompt,
        output_tokens=output,
        output_rate=output / seconds,
        total_rate=(prompt + output) / seconds,
        ttft_p50=_milliseconds(first, 0.50),
        ttft_p99=_milliseconds(first, 0.99),
        itl_p50=_milliseconds(gaps, 0.50),
        itl_p99=_milliseconds(gaps, 0.99),
    )


def _milliseconds(seconds: Iterable[float], quantile: float) -> float:
    ordered = sorted(seconds)
    if not ordered:
        return 0.0
    return 1000 * ordered[min(len(ordered) - 1, int(quantile * len(ordered)))]
