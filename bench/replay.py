"""A day's mix in miniature: a public trace replayed at 1, 2 and 4 times what one engine carries.

    python bench/replay.py conversation_trace.jsonl

First all requests at once tell how long the engine needs for them; that is what 1 x is
stretched to. Then every pace, each on a server started anew. A pace fails if a request is lost
or cut short, or answers otherwise than the first time (greedy: whatever else runs, answers are
the same).
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from engines.headrace import Headrace
from headrace.load.client import LoadError, Timing
from headrace.load.replay import replay
from headrace.load.report import summarise
from headrace.load.trace import Arrival, arrivals, read_trace
from headrace.load.workload import Workload
from measurement import PROMPT_IDS
from run import model_path

AT_ONCE = 1e9
PATIENCE = 36_000
"""Seconds: a trace is to be served whole, however far behind it is."""


class Patient(Headrace):
    """Turns nobody away for having to wait."""

    def environment(self) -> dict[str, str]:
        classes = f'{{"default": {{"deadline": {PATIENCE}}}}}'
        return {**super().environment(), "HEADRACE_CLASSES": classes}


@dataclass(frozen=True)
class Outcome:
    """What became of the arrivals."""

    arrivals: Sequence[Arrival]
    timings: list[Timing | LoadError]

    @property
    def answered(self) -> list[Timing]:
        return [timing for timing in self.timings if isinstance(timing, Timing)]

    @property
    def short(self) -> int:
        """Answers that have not the length that was asked for."""
        pairs = zip(self.arrivals, self.timings, strict=True)
        return sum(isinstance(t, Timing) and t.tokens != a.request.output for a, t in pairs)

    def unlike(self, other: Outcome) -> int:
        """Answers that read otherwise than the other's."""
        texts = [
            [timing.text if isinstance(timing, Timing) else None for timing in outcome.timings]
            for outcome in (self, other)
        ]
        return sum(a != b for a, b in zip(*texts, strict=True))

    @property
    def hit_rate(self) -> float:
        cached = sum(timing.cached_tokens for timing in self.answered)
        return cached / max(1, sum(timing.prompt_tokens for timing in self.answered))

    @property
    def seconds(self) -> float:
        return max(t.end for t in self.answered) - min(t.start for t in self.answered)


def measure(gguf: Path, calls: Sequence[Arrival], pace: float) -> Outcome:
    shape = Workload(title="replay", streams=32, requests=len(calls), output=1)
    with Patient().serve(gguf, shape) as server:
        return Outcome(calls, asyncio.run(replay(calls, server, pace)))


def show(name: str, outcome: Outcome, first: Outcome) -> bool:
    """Prints a line; whether all is as it should be."""
    lost = len(outcome.timings) - len(outcome.answered)
    short, unlike = outcome.short, outcome.unlike(first)
    report = summarise(outcome.answered)
    cells = (name, f"{outcome.seconds:.0f}", f"{lost}", f"{short}", f"{unlike}")
    cells += (f"{report.output_rate:.1f}", f"{report.total_rate:.0f}")
    cells += (f"{report.ttft_p50:.0f}", f"{report.ttft_p99:.0f}", f"{report.itl_p99:.0f}")
    print("| " + " | ".join((*cells, f"{100 * outcome.hit_rate:.1f} %")) + " |", flush=True)
    for error in {str(t) for t in outcome.timings if isinstance(t, LoadError)}:
        print(f"  {error}")
    return not (lost or short or unlike)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("trace", type=Path, help="JSON lines in Mooncake's format")
    parser.add_argument("--model", default="smollm2-135m", help="catalogue name or GGUF path")
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--block", type=int, default=32, help="tokens for each 512 of the trace")
    parser.add_argument("--paces", type=float, nargs="+", default=[1, 2, 4])
    args = parser.parse_args()

    gguf = model_path(args.model)
    lines = read_trace(args.trace, args.requests)
    calls = arrivals(lines, args.block, PROMPT_IDS, seed=1)
    tokens = sum(len(call.request.prompt) for call in calls)
    known = sum(call.known for call in calls)
    print(f"{len(calls)} requests, {tokens} prompt tokens; an endless cache would hit", end=" ")
    print(f"{100 * known / tokens:.1f} %\n")
    print("| pace | seconds | lost | short | unlike | out tok/s | total tok/s", end=" ")
    print("| TTFT p50 ms | TTFT p99 ms | ITL p99 ms | cache hits |")
    print("| --- " * 11 + "|")
    first = measure(gguf, calls, AT_ONCE)
    good = show("all at once", first, first)
    stretch = first.seconds / max(call.at for call in calls)
    steady = [msgspec.structs.replace(call, at=call.at * stretch) for call in calls]
    for pace in args.paces:
        good &= show(f"{pace:g} x", measure(gguf, steady, pace), first)
    if not good:
        raise SystemExit("something was lost, cut short or answered otherwise")


if __name__ == "__main__":
    main()
