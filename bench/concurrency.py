"""Throughput and inter-token latency against the number of streams, measured and drawn.

    python bench/concurrency.py --engines headrace openvino llama.cpp-q4_0
    python bench/concurrency.py --draw        the figures of the last run again

Figures go to bench/out/concurrency.json, pictures to docs/. Needs the extra `bench`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

import plots
from engines import ENGINES
from headrace.load.report import Report
from headrace.load.workload import Workload
from measurement import measure
from run import OUT, model_path

STREAMS = (1, 2, 4, 8, 16, 32)
DOCS = Path(__file__).parents[1] / "docs"
FILE = OUT / "concurrency.json"

Figures = dict[str, dict[int, list[Report]]]
"""Engine -> streams -> one report a round."""


def workload(streams: int, waves: int) -> Workload:
    title, requests = f"{streams} streams", waves * streams
    return Workload(title=title, streams=streams, requests=requests, prompt=256, output=128)


def measure_all(gguf: Path, engines: list[str], levels: list[int], rounds: int, waves: int) -> None:
    figures: Figures = {engine: {streams: [] for streams in levels} for engine in engines}
    for streams in levels:
        for _ in range(rounds):
            for engine in engines:
                report = measure(ENGINES[engine], gguf, workload(streams, waves))
                assert report is not None, "there is no schema to refuse"
                figures[engine][streams].append(report)
                save(figures)
                print(f"  {streams} streams {engine}: {report.output_rate:.1f} tok/s", flush=True)


def save(figures: Figures) -> None:
    """What was measured so far: a run takes long, and may be cut short."""
    some = {name: {n: each for n, each in by.items() if each} for name, by in figures.items()}
    OUT.mkdir(exist_ok=True)
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(some)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--engines", nargs="+", default=["headrace"], choices=list(ENGINES))
    parser.add_argument("--model", default="smollm2-135m", help="catalogue name or GGUF path")
    parser.add_argument("--streams", nargs="+", type=int, default=list(STREAMS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--waves", type=int, default=2, help="requests of each stream")
    parser.add_argument("--draw", action="store_true", help="measure nothing")
    args = parser.parse_args()

    if not args.draw:
        gguf = model_path(args.model)
        for name in args.engines:
            ENGINES[name].setup()
        measure_all(gguf, args.engines, args.streams, args.rounds, args.waves)
    figures = msgspec.json.decode(FILE.read_bytes(), type=Figures)
    plots.draw(figures, "output_rate", "output tokens a second", DOCS / "throughput.png")
    plots.draw(figures, "itl_p50", "time between tokens, median, ms", DOCS / "itl.png")


if __name__ == "__main__":
    main()
