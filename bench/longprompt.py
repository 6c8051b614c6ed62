"""What a long prompt does to those who decode, and they to it.

    python bench/longprompt.py --model qwen2.5-coder-0.5b --tokens 30000

Eight streams decode by themselves, then a long prompt comes by itself, then it comes while
they decode, under a target ITL (--target-itl, else --factor times the median without it), then
each is by itself again: machines get faster and slower from one minute to the next. Each prompt
is of random token ids, so that no cache helps.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import msgspec

from engines.headrace import Headrace
from headrace.load.client import Request, Server, complete
from headrace.load.workload import Workload
from measurement import PROMPT_IDS
from run import model_path

STREAMS, PROMPT = 8, 64
IDLE = Workload(title="", streams=STREAMS, requests=STREAMS, prompt=PROMPT, output=1)


class Targeted(Headrace):
    """With a target ITL in milliseconds, if any."""

    def __init__(self, target: float | None) -> None:
        self.target = target

    def command(self, gguf: Path, port: int, workload: Workload) -> list[str]:
        target = [] if self.target is None else ["--target-itl", f"{self.target:.1f}"]
        return [*super().command(gguf, port, workload), *target]


class Monotonous(Request, frozen=True, kw_only=True):
    """Answered by one word again and again, so that each token is an event of its own: tokens
    that are no whole character would wait for the next."""

    def body(self, model: str) -> bytes:
        fields = msgspec.json.decode(super().body(model))
        return msgspec.json.encode({**fields, "logit_bias": {str(PROMPT_IDS[0]): 100}})


def prompt(tokens: int) -> list[int]:
    return random.choices(PROMPT_IDS, k=tokens)


async def follow(server: Server, output: int, arrivals: list[float]) -> None:
    """Note when each piece of text of an endless answer comes."""
    reader, writer = await server.connect()
    try:
        writer.write(server.message(Monotonous(prompt=prompt(PROMPT), output=output)))
        while line := await reader.readline():
            if line.startswith(b"data:") and b'"text":""' not in line:
                arrivals.append(time.perf_counter())
    finally:
        writer.close()


@asynccontextmanager
async def decoding(server: Server, output: int) -> AsyncIterator[list[list[float]]]:
    """The arrivals of each stream, all of which have begun."""
    streams: list[list[float]] = [[] for _ in range(STREAMS)]
    tasks = [asyncio.create_task(follow(server, output, arrivals)) for arrivals in streams]
    while min(map(len, streams)) < 10:  # noqa: ASYNC110 - nothing else tells
        await asyncio.sleep(0.1)
    yield streams
    if any(task.done() for task in tasks):
        raise RuntimeError("a stream ended too early: --output is too small")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def gaps(streams: list[list[float]], start: float, end: float) -> list[float]:
    """Milliseconds between tokens of a stream, of all streams, in order of size."""
    return sorted(
        1000 * (b - a) for arrivals in streams for a, b in pairwise(arrivals) if start <= b <= end
    )


def quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def first_token(server: Server, tokens: int) -> tuple[float, float]:
    """When a prompt was sent, and when its first token came."""
    timing = await complete(server, Request(prompt=prompt(tokens), output=1))
    return timing.start, timing.arrivals[0]


async def baseline(server: Server, args: argparse.Namespace) -> tuple[list[float], float]:
    """Gaps of the streams alone, and the seconds of the prompt alone."""
    await first_token(server, PROMPT)
    async with decoding(server, args.output) as streams:
        start = time.perf_counter()
        await asyncio.sleep(args.seconds)
        alone = gaps(streams, start, time.perf_counter())
    start, end = await first_token(server, args.tokens)
    return alone, end - start


async def together(server: Server, args: argparse.Namespace) -> tuple[list[float], float]:
    async with decoding(server, args.output) as streams:
        start, end = await first_token(server, args.tokens)
        return gaps(streams, start, end), end - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--model", default="qwen2.5-coder-0.5b", help="catalogue name or GGUF path")
    parser.add_argument("--tokens", type=int, default=30_000, help="of the long prompt")
    parser.add_argument("--output", type=int, default=8_000, help="most tokens of a stream")
    parser.add_argument("--seconds", type=float, default=20, help="of streams alone")
    parser.add_argument("--target-itl", type=float, help="milliseconds")
    parser.add_argument("--factor", type=float, default=3.4, help="target ITL by median ITL")
    args = parser.parse_args()

    gguf = model_path(args.model)
    with Targeted(None).serve(gguf, IDLE) as server:
        before, first = asyncio.run(baseline(server, args))
    tell_alone("before", before, args.tokens, first)

    target = args.target_itl or args.factor * quantile(before, 0.5)
    with Targeted(target).serve(gguf, IDLE) as server:
        during, beside = asyncio.run(together(server, args))
        after, last = asyncio.run(baseline(server, args))
    q50, q99 = quantile(during, 0.5), quantile(during, 0.99)
    print(f"together, target ITL {target:.0f} ms: ITL p50 {q50:.1f} ms, p99 {q99:.1f} ms")
    print(f"{args.tokens} tokens together: {beside:.1f} s, {args.tokens / beside:.0f} tok/s")
    tell_alone("after", after, args.tokens, last)

    alone = sorted(before + after)
    p50, p99 = quantile(alone, 0.5), quantile(alone, 0.99)
    print(
        f"{q99 / p99:.2f} x the p99 alone, {q99 / p50:.2f} x the p50;"
        f" the prompt at {(first + last) / 2 / beside:.1%} of its speed alone"
    )


def tell_alone(when: str, gaps: list[float], tokens: int, seconds: float) -> None:
    p50, p99 = quantile(gaps, 0.5), quantile(gaps, 0.99)
    print(f"{STREAMS} streams alone, {when}: ITL p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    print(
        f"{tokens} tokens alone, {when}: {seconds:.1f} s, {tokens / seconds:.0f} tok/s", flush=True
    )


if __name__ == "__main__":
    main()
