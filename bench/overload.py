"""Five times what can be served, for two minutes, by tenants of all classes.

    python bench/overload.py
    python bench/overload.py --seconds 10 --only default           a short spike, of one class
    python bench/overload.py --seconds 30 --only interactive --cold     right after a start
    python bench/overload.py --draw        the figures of the last run again

What the mix of requests comes to at most is measured first, by as many streams as there are
places. Then they arrive at random, whatever became of those before: at half of that, at `--times`
of it for `--seconds`, and at half of it again. Figures go to bench/out/overload.json, a picture to
docs/, if it is a run of the usual mix. Needs the extra `bench`.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import msgspec
import psutil

from engines.headrace import with_tenants
from headrace.dispatch.policy import usual_policies
from headrace.load.client import LoadError, Overloaded, Request, Server, complete
from measurement import PROMPT_IDS
from run import OUT, model_path

DOCS = Path(__file__).parents[1] / "docs"
FILE = OUT / "overload.json"
MIB = 1024 * 1024
STREAMS = 64
CALM = 0.5
CALM_SECONDS = 20.0
AFTER_SECONDS = 30.0
TARGETS = {name: policy.deadline for name, policy in usual_policies(0).items()}
"""Seconds to the first token, by class."""
Processes = tuple[psutil.Process, psutil.Process]
"""The one that serves and its engine's."""


@dataclass(frozen=True)
class Kind:
    """One tenant's requests: `part` of all arrivals, random prompts and answers of fixed length."""

    tenant: str
    service_class: str
    part: float
    prompt: int
    output: int


KINDS = [
    Kind("assistant", "interactive", 0.10, 96, 48),
    Kind("search", "interactive", 0.30, 96, 48),
    Kind("app", "default", 0.04, 160, 64),
    Kind("crawler", "default", 0.40, 160, 64),
    Kind("nightly", "batch", 0.16, 320, 64),
]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Of one request, in seconds since the run began. first: its first token; refused: the reason;
    neither for one that left at the end."""

    tenant: str
    service_class: str
    start: float
    end: float
    first: float | None = None
    refused: str = ""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """at: seconds since the run began. memory: MiB of the serving process and of the engine's."""

    at: float
    queued: int
    serving: float
    engine: float


class Figures(msgspec.Struct, kw_only=True):
    """capacity: requests a second of the mix; peak: cost a second, of prompt tokens and twice
    those of answers. spike: when it began and ended. served: cost by tenant and second, of
    requests that were answered."""

    capacity: float
    peak: float
    times: float
    spike: tuple[float, float]
    outcomes: list[Outcome]
    served: dict[str, dict[int, float]]
    samples: list[Sample]


class Load:
    """Sends requests and notes what became of them."""

    def __init__(
        self, kinds: Sequence[Kind], servers: dict[str, Server], dice: random.Random
    ) -> None:
        self.outcomes: list[Outcome] = []
        self.served: dict[str, Counter[int]] = {kind.tenant: Counter() for kind in kinds}
        self._kinds, self._servers, self._dice = kinds, servers, dice
        self._began = time.perf_counter()

    @property
    def now(self) -> float:
        return time.perf_counter() - self._began

    async def send(self) -> None:
        (kind,) = self._dice.choices(self._kinds, [kind.part for kind in self._kinds])
        prompt = self._dice.choices(PROMPT_IDS, k=kind.prompt)
        start = self.now
        outcome = Outcome(
            tenant=kind.tenant, service_class=kind.service_class, start=start, end=start
        )
        try:
            request = Request(prompt=prompt, output=kind.output)
            timing = await complete(self._servers[kind.tenant], request)
        except Overloaded as refusal:
            reason = str(refusal).rpartition("(")[2].partition(")")[0]
            outcome = msgspec.structs.replace(outcome, end=self.now, refused=reason)
        except asyncio.CancelledError:
            self.outcomes.append(msgspec.structs.replace(outcome, end=self.now))
            raise
        else:
            first = timing.arrivals[0] - self._began
            outcome = msgspec.structs.replace(outcome, end=self.now, first=first)
            served = self.served[kind.tenant]
            served[int(first)] += kind.prompt
            for at in timing.arrivals:
                served[int(at - self._began)] += 2 * kind.output / len(timing.arrivals)
        self.outcomes.append(outcome)

    async def closed(self, streams: int, seconds: float) -> None:
        """So many at a time."""
        end = self.now + seconds

        async def stream() -> None:
            while self.now < end:
                await self.send()

        await asyncio.gather(*(stream() for _ in range(streams)))

    async def open(self, rate: float, seconds: float, sent: set[asyncio.Task[None]]) -> None:
        """So many a second."""
        at = self.now
        end = at + seconds
        while at < end:
            await asyncio.sleep(at - self.now)
            sent.add(asyncio.create_task(self.send()))
            at += self._dice.expovariate(rate)


async def measure_capacity(
    kinds: Sequence[Kind], servers: dict[str, Server]
) -> tuple[float, float]:
    """Requests of the mix, and cost, a second at most."""
    load = Load(kinds, servers, random.Random(7))
    await load.closed(STREAMS, 8)
    began = int(load.now) + 1
    await load.closed(STREAMS, 25)
    peak = served_in(load.served, began, began + 24) / 24
    capacity = peak / sum(kind.part * (kind.prompt + 2 * kind.output) for kind in kinds)
    print(f"  capacity {capacity:.1f} requests/s, {peak:.0f} cost/s", flush=True)
    return capacity, peak


async def measure(
    kinds: Sequence[Kind],
    servers: dict[str, Server],
    processes: Processes,
    of_load: tuple[float, float],
    times: float,
    seconds: float,
    calm_before: float,
) -> Figures:
    capacity, peak = of_load
    load = Load(kinds, servers, random.Random(8))
    samples: list[Sample] = []
    sampling = asyncio.create_task(_sample(load, next(iter(servers.values())), processes, samples))
    sent: set[asyncio.Task[None]] = set()
    await load.open(CALM * capacity, calm_before, sent)
    start = load.now
    await load.open(times * capacity, seconds, sent)
    end = load.now
    await load.open(CALM * capacity, AFTER_SECONDS, sent)
    if all(kind.service_class != "batch" for kind in kinds):
        await asyncio.wait(sent)
    for task in sent:  # batch may wait for an hour
        task.cancel()
    ended = await asyncio.gather(*sent, return_exceptions=True)
    sampling.cancel()
    if broken := [each for each in ended if isinstance(each, LoadError)]:
        raise broken[0]
    return Figures(
        capacity=capacity,
        peak=peak,
        times=times,
        spike=(start, end),
        outcomes=load.outcomes,
        served=load.served,
        samples=samples,
    )


async def _sample(load: Load, server: Server, processes: Processes, samples: list[Sample]) -> None:
    async with httpx.AsyncClient(timeout=30) as client:
        while True:
            at = load.now
            ready = (await client.get(server.url.removesuffix("v1") + "readyz")).json()
            serving, engine = (process.memory_info().rss / MIB for process in processes)
            queued = ready["dispatch"]["queued"]
            samples.append(Sample(at=at, queued=queued, serving=serving, engine=engine))
            await asyncio.sleep(1)


@contextmanager
def serving(gguf: Path, kinds: Sequence[Kind]) -> Iterator[tuple[dict[str, Server], Processes]]:
    """A server for each tenant's key, and its two processes."""
    classes = {kind.tenant: kind.service_class for kind in kinds}
    with with_tenants(gguf, list(classes), classes) as service:
        servers = {
            tenant: msgspec.structs.replace(service.server, key=key)
            for tenant, key in zip(classes, service.keys, strict=True)
        }
        (worker,) = service.process.children()
        yield servers, (service.process, worker)


# What it came to.


def report(figures: Figures) -> dict[str, float]:
    start, end = figures.spike
    spike = [each for each in figures.outcomes if start <= each.start < end]
    refused = [each for each in spike if each.refused]
    waits = sorted(each.end - each.start for each in refused)
    first = sorted(
        each.first - each.start
        for each in figures.outcomes
        if each.first is not None and each.service_class == "interactive" and each.start < end
    )
    goodput = served_in(figures.served, int(start), int(end)) / (int(end) - int(start))
    before = [sample for sample in figures.samples if sample.at <= start] or figures.samples[:1]
    let_in = [each for each in spike if each.refused in ("", "waited_too_long")]
    late = [
        each
        for each in let_in
        if each.refused or (each.first and each.first - each.start > TARGETS[each.service_class])
    ]
    during = [sample for sample in figures.samples if start <= sample.at]
    memory = [sample.serving + sample.engine for sample in during]
    return {
        "capacity": figures.capacity,
        "offered": len(spike) / (end - start),
        "answered": sum(each.first is not None for each in spike),
        "refused": len(refused),
        "refused_of_100": 100 * len(refused) / len(spike),
        "late_of_100_let_in": 100 * len(late) / len(let_in),
        "longest_wait": max((e.first - e.start for e in spike if e.first), default=0.0),
        "refused_ms_p50": 1000 * _quantile(waits, 0.5),
        "refused_ms_p99": 1000 * _quantile(waits, 0.99),
        "interactive_ttft_p50": _quantile(first, 0.5),
        "interactive_ttft_p99": _quantile(first, 0.99),
        "goodput_of_peak": goodput / figures.peak,
        "most_queued": max(sample.queued for sample in during),
        "memory_before": max(sample.serving + sample.engine for sample in before),
        "memory_most": max(memory),
        "recovered_after": recovered(figures),
        **{
            f"cost_of_{name}": served_in({name: by_second}, int(start), int(end))
            for name, by_second in figures.served.items()
        },
    }


def served_in(served: Mapping[str, Mapping[int, float]], start: int, end: int) -> float:
    return sum(by.get(second, 0) for by in served.values() for second in range(start, end))


def recovered(figures: Figures) -> float:
    """Seconds after the spike until none that came later was refused or, but in batch, late for
    its target by half."""
    _, end = figures.spike
    after = [e for e in figures.outcomes if e.start >= end and e.service_class != "batch"]
    troubled = [
        e.start - end
        for e in after
        if e.refused or (e.first and e.first - e.start > TARGETS[e.service_class] / 2)
    ]
    return max(troubled, default=0.0)


def _quantile(ordered: list[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0


def run(args: argparse.Namespace) -> Figures:
    kinds = [replace(kind, service_class=args.only or kind.service_class) for kind in KINDS]
    gguf = model_path(args.model)
    with serving(gguf, kinds) as (servers, processes):
        of_load = asyncio.run(measure_capacity(kinds, servers))
        if not args.cold:
            return asyncio.run(
                measure(kinds, servers, processes, of_load, args.times, args.seconds, CALM_SECONDS)
            )
    with serving(gguf, kinds) as (servers, processes):
        return asyncio.run(measure(kinds, servers, processes, of_load, args.times, args.seconds, 0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--model", default="smollm2-135m", help="catalogue name or GGUF path")
    parser.add_argument("--times", type=float, default=5)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--only", choices=TARGETS, help="all tenants are of this class")
    parser.add_argument("--cold", action="store_true", help="the spike comes right after a start")
    parser.add_argument("--draw", action="store_true", help="the last run again")
    args = parser.parse_args()
    if not args.draw:
        figures = run(args)
    if not (args.draw or args.only or args.cold):
        OUT.mkdir(exist_ok=True)
        FILE.write_bytes(msgspec.json.encode(figures))
    if args.draw:
        figures = msgspec.json.decode(FILE.read_bytes(), type=Figures)
    for name, value in report(figures).items():
        print(f"  {name:24} {value:,.2f}")
    if not (args.only or args.cold):
        import plots

        plots.draw_overload(figures, TARGETS["interactive"], DOCS / "overload.png")


if __name__ == "__main__":
    main()
