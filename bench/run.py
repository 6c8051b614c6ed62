"""Run workloads against Headrace, and against its peers in the same run.

    python bench/run.py                          every workload, Headrace alone
    python bench/run.py --engines headrace llama.cpp --workloads W1 W3

Each measurement starts its server anew, alone on the machine; engines take turns within
a round, so that a drift of the machine hits all of them. Medians over the rounds are shown,
with the ratio to the best peer, and all figures are written to bench/out/results.json.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import random
import statistics
from pathlib import Path

import msgspec

from headrace.load.client import complete
from headrace.load.report import Report, summarise
from headrace.load.run import run
from headrace.load.workload import Workload, builtin
from headrace.models.catalogue import Catalogue
from headrace.settings import Settings
from servers import ENGINES

OUT = Path(__file__).parent / "out"
PROMPT_IDS = range(1000, 40000)


def model_path(name: str) -> Path:
    if Path(name).exists():
        return Path(name)
    catalogue = Catalogue(Settings().models_dir)
    return (catalogue.installed(name) or catalogue.pull(name)).path


def measure(engine_name: str, gguf: Path, workload: Workload) -> Report:
    with ENGINES[engine_name].serve(gguf, workload.streams) as server:
        warm = random.choices(PROMPT_IDS, k=64)
        asyncio.run(complete(server, warm, 16))
        return summarise(asyncio.run(run(workload, server, PROMPT_IDS)))


def median(reports: list[Report], figure: str) -> float:
    return statistics.median(getattr(report, figure) for report in reports)


def print_table(results: dict[str, dict[str, list[Report]]], known: dict[str, Workload]) -> None:
    print("| workload | engine | out tok/s | vs best peer | TTFT p50 ms | ITL p50 | ITL p99 |")
    print("|---|---|---|---|---|---|---|")
    for name, engines in results.items():
        peers = [median(r, "output_rate") for e, r in engines.items() if e != "headrace"]
        for engine, reports in engines.items():
            rate = median(reports, "output_rate")
            ratio = f"{rate / max(peers):.2f}x" if peers and engine == "headrace" else ""
            cells = [f"{name}: {known[name].title}", engine, f"{rate:.1f}", ratio]
            cells += [f"{median(reports, f):.2f}" for f in ("ttft_p50", "itl_p50", "itl_p99")]
            print("| " + " | ".join(cells) + " |")


def main() -> None:
    known = builtin()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--engines", nargs="+", default=["headrace"], choices=list(ENGINES))
    parser.add_argument("--workloads", nargs="+", default=list(known), choices=list(known))
    parser.add_argument("--model", default="smollm2-135m", help="catalogue name or GGUF path")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, help="of each workload, instead of its own number")
    args = parser.parse_args()

    if args.requests:
        known = {
            name: msgspec.structs.replace(workload, requests=args.requests)
            for name, workload in known.items()
        }
    gguf = model_path(args.model)
    for name in args.engines:
        ENGINES[name].setup()
    print(f"{platform.platform()}, {os.cpu_count()} cores, {gguf.name}, {args.rounds} rounds\n")
    results: dict[str, dict[str, list[Report]]] = {}
    for workload in args.workloads:
        each = results[workload] = {engine: [] for engine in args.engines}
        for _ in range(args.rounds):
            for engine in args.engines:
                report = measure(engine, gguf, known[workload])
                each[engine].append(report)
                print(f"  {workload} {engine}: {report.output_rate:.1f} tok/s", flush=True)
    print()
    print_table(results, known)
    OUT.mkdir(exist_ok=True)
    (OUT / "results.json").write_bytes(msgspec.json.format(msgspec.json.encode(results)))


if __name__ == "__main__":
    main()
