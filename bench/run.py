"""Run workloads against Headrace, and against its peers in the same run.

    python bench/run.py                          every workload, Headrace alone
    python bench/run.py --peers                  beside every peer
    python bench/run.py --engines headrace llama.cpp --workloads W1 W3

Each measurement starts its server anew, alone on the machine; engines take turns within
a round, so that a drift of the machine hits all of them. Medians over the rounds are shown,
with the ratio to the best peer and the share of the machine's floor, and everything is
written to bench/out/results.json after each round. A peer that falls over loses that round,
not the run.
"""

from __future__ import annotations

import argparse
import platform
from pathlib import Path

import msgspec

import table
from engines import ENGINES
from engines.engine import THREADS
from floor import Floor, fastest, floor, model_cost
from headrace.load.client import LoadError
from headrace.load.report import Report
from headrace.load.workload import Workload, builtin
from headrace.models.catalogue import Catalogue
from headrace.ops.cpu import MachineSpeed, measure_speed
from headrace.settings import Settings
from measurement import measure

OUT = Path(__file__).parent / "out"


class Run(msgspec.Struct, kw_only=True):
    """What was measured, where and with what. results: workload -> engine -> rounds.
    failures: what went wrong with a peer; its round is missing."""

    model: str
    platform: str
    processor: str
    machine: MachineSpeed
    versions: dict[str, str]
    floors: dict[str, Floor] = {}
    results: dict[str, dict[str, list[Report]]] = {}
    failures: list[str] = []

    def save(self, path: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self)))


def model_path(name: str) -> Path:
    if Path(name).exists():
        return Path(name)
    catalogue = Catalogue(Settings().models_dir)
    return (catalogue.installed(name) or catalogue.pull(name)).path


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def prepare(gguf: Path, engines: list[str]) -> Run:
    """Sets the engines up and measures the machine."""
    for name in engines:
        ENGINES[name].setup()
        ENGINES[name].prepare(gguf)
    return Run(
        model=gguf.name,
        platform=platform.platform(),
        processor=processor(),
        machine=measure_speed(THREADS),
        versions={name: ENGINES[name].version() for name in engines},
    )


def measure_all(run: Run, gguf: Path, workloads: dict[str, Workload], rounds: int) -> None:
    """Fills run.results and run.floors. The machine is measured again before each workload, and
    its best counts: a floor must not sink because a neighbour was busy."""
    cost = model_cost(gguf)
    for name, workload in workloads.items():
        each: dict[str, list[Report]] = {engine: [] for engine in run.versions}
        run.results[name] = each
        run.machine = fastest(run.machine, measure_speed(THREADS))
        run.floors = {
            name: floor(cost, run.machine, workloads[name])
            for name in run.results
            if not workloads[name].question
        }
        for _ in range(rounds):
            for engine, reports in each.items():
                try:
                    report = measure(ENGINES[engine], gguf, workload)
                except (RuntimeError, LoadError) as error:
                    if engine == table.OURS:
                        raise
                    run.failures.append(f"{name} {engine}: {error}")
                    print(f"  {name} {engine} failed: {error}", flush=True)
                    continue
                if report is None:
                    print(f"  {name} {engine}: not supported yet", flush=True)
                    continue
                reports.append(report)
                figures = f"{report.output_rate:.1f} tok/s, first token {report.ttft_p50:.0f} ms"
                print(f"  {name} {engine}: {figures}, then {report.itl_p50:.2f} ms", flush=True)
            run.save(OUT / "results.json")


def describe(run: Run, rounds: int) -> None:
    speed = run.machine
    print(f"\n{run.model}; {run.processor}, {run.platform}; {rounds} rounds")
    print(
        f"{speed.isa}, {speed.threads} threads, {speed.bytes_per_second / 1e9:.1f} GB/s, "
        f"{speed.products_per_second / 1e9:.0f} G int8 multiply-adds/s"
    )
    print(", ".join(f"{engine} {version}" for engine, version in run.versions.items()) + "\n")


def main() -> None:
    known = builtin()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    engines = parser.add_mutually_exclusive_group()
    engines.add_argument("--engines", nargs="+", default=["headrace"], choices=list(ENGINES))
    engines.add_argument(
        "--peers", dest="engines", action="store_const", const=list(ENGINES), help="every engine"
    )
    parser.add_argument("--workloads", nargs="+", default=list(known), choices=list(known))
    parser.add_argument("--model", default="smollm2-135m", help="catalogue name or GGUF path")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, help="at most so many of each workload")
    args = parser.parse_args()

    workloads = {name: known[name] for name in args.workloads}
    if args.requests:
        workloads = {
            name: msgspec.structs.replace(w, requests=min(args.requests, w.requests))
            for name, w in workloads.items()
        }
    gguf = model_path(args.model)
    run = prepare(gguf, args.engines)
    measure_all(run, gguf, workloads, args.rounds)
    describe(run, args.rounds)
    for line in table.lines(known, run.results, run.floors):
        print(line)
    if run.failures:
        print(f"\n{len(run.failures)} rounds failed:", *run.failures, sep="\n")


if __name__ == "__main__":
    main()
