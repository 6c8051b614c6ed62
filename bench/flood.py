"""A tenant floods the service with what is expensive to prepare; what becomes of another's chat.

    python bench/flood.py

Starts `headrace serve` with the default model. Measures the first
token of a chat of some 900 tokens, alone and while eight connections of another tenant send each
kind of hostile request in turn, for `--seconds` seconds a kind. Also measured: `/healthz`, the
serving process's memory, and how long a hostile request takes until it is refused. Prints the
figures and exits 1 where a bar does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import statistics
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import httpx
import msgspec
import psutil

from engines.headrace import with_tenants
from run import model_path

CONNECTIONS = 8
MIB = 1 << 20
MOST_FIRST_TOKEN = 2.0
"""Of the time that it takes alone."""
MOST_HEALTHZ = 0.1
MOST_MEMORY = 600 * MIB
MOST_REFUSAL = 1.0


def _chat(text: str) -> tuple[str, bytes]:
    body = {"model": "MODEL", "max_tokens": 1, "messages": [{"role": "user", "content": text}]}
    return "/v1/chat/completions", msgspec.json.encode(body)


def _count(text: str) -> tuple[str, bytes]:
    body = {"model": "MODEL", "messages": [{"role": "user", "content": text}]}
    return "/v1/messages/count_tokens", msgspec.json.encode(body)


def _complete(prompt: object) -> tuple[str, bytes]:
    body = {"model": "MODEL", "max_tokens": 1, "prompt": prompt}
    return "/v1/completions", msgspec.json.encode(body)


def _messages(count: int) -> tuple[str, bytes]:
    body = {"model": "MODEL", "messages": [{"role": "user", "content": "x"}] * count}
    return "/v1/chat/completions", msgspec.json.encode(body)


def _tools(size: int) -> tuple[str, bytes]:
    function = {"name": "f", "description": "word, " * (size // 6)}
    body = {
        "model": "MODEL",
        "messages": [{"role": "user", "content": "x"}],
        "tools": [{"type": "function", "function": function}],
    }
    return "/v1/chat/completions", msgspec.json.encode(body)


KINDS = {
    "3,000,000 digits, counted": lambda: _count("1" * 3_000_000),
    "3,000,000 digits": lambda: _chat("1" * 3_000_000),
    "15 MiB of digits": lambda: _chat("1" * (15 * MIB)),
    "15 MiB completion": lambda: _complete("1" * (15 * MIB)),
    "5,000,000 letters": lambda: _chat("a" * 5_000_000),
    "1,000,000 new lines": lambda: _chat("\n" * 1_000_000),
    "just within the size of a body": lambda: _chat("word, " * 240_000),
    "130,000 letters in a word": lambda: _complete("ab" * 65_000),
    "100,000 prompts": lambda: _complete(["a"] * 100_000),
    "1,000,000 token ids": lambda: _complete([1] * 1_000_000),
    "40,000 messages": lambda: _messages(40_000),
    "8,000 messages": lambda: _messages(8_000),
    "a tool of 1 MB": lambda: _tools(1_000_000),
}


@dataclass
class Figures:
    """Of one kind of flood. first: seconds to the first tokens; health: of /healthz; refusals:
    seconds of hostile requests; statuses: of them."""

    first: list[float] = field(default_factory=list)
    health: list[float] = field(default_factory=list)
    refusals: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    memory: int = 0


@dataclass(frozen=True)
class Target:
    """A running service, and keys of two tenants on it."""

    url: str
    flood_key: str
    other_key: str
    pid: int
    model: str

    def client(self, key: str) -> httpx.AsyncClient:
        """Without certificates: reading them holds up everything else here for 50 ms."""
        headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=120, verify=False)


async def first_token(client: httpx.AsyncClient, model: str, number: int) -> float:
    """Seconds to the first token of a chat that no cache knows."""
    words = " ".join(f"word{number} {n}" for n in range(140))
    body = {
        "model": model,
        "messages": [{"role": "user", "content": words}],
        "max_tokens": 1,
        "stream": True,
    }
    began = time.perf_counter()
    async with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        if answer.status_code != 200:
            raise SystemExit(f"the chat got {answer.status_code}: {await answer.aread()!r}")
        async for line in answer.aiter_lines():
            if line.startswith("data:"):
                return time.perf_counter() - began
    raise SystemExit("the chat had no token")


async def flood(target: Target, path: str, body: bytes, figures: Figures, until: float) -> None:
    async with target.client(target.flood_key) as client:
        while time.perf_counter() < until:
            began = time.perf_counter()
            try:
                answer = await client.post(path, content=body)
                figures.statuses[answer.status_code] += 1
            except httpx.TransportError:  # cut off while it sent what was refused already
                figures.statuses[0] += 1
            figures.refusals.append(time.perf_counter() - began)


async def watch(target: Target, figures: Figures, until: float) -> None:
    async with target.client(target.other_key) as client:
        while time.perf_counter() < until:
            began = time.perf_counter()
            await client.get("/healthz")
            figures.health.append(time.perf_counter() - began)
            figures.memory = max(figures.memory, psutil.Process(target.pid).memory_info().rss)
            await asyncio.sleep(0.02)


async def chats(target: Target, figures: Figures, until: float) -> None:
    async with target.client(target.other_key) as client:
        number = 0
        while time.perf_counter() < until:
            number += 1
            stamp = time.time_ns() % 1_000_000 + number
            figures.first.append(await first_token(client, target.model, stamp))


def flooded(target: Target, kind: str, seconds: float) -> Figures:
    """In a process of its own, so that it does not delay what is measured elsewhere."""
    path, body = KINDS[kind]()
    body = body.replace(b"MODEL", target.model.encode(), 1)
    figures = Figures()

    async def all_connections() -> None:
        until = time.perf_counter() + seconds
        sent = (flood(target, path, body, figures, until) for _ in range(CONNECTIONS))
        await asyncio.gather(*sent)

    asyncio.run(all_connections())
    return figures


async def measure(target: Target, kind: str, seconds: float) -> Figures:
    figures = Figures()
    until = time.perf_counter() + seconds
    work = [chats(target, figures, until), watch(target, figures, until)]
    if not kind:
        await asyncio.gather(*work)
        return figures
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        flooding = loop.run_in_executor(pool, flooded, target, kind, seconds)
        await asyncio.gather(*work)
        sent = await flooding
    figures.refusals, figures.statuses = sent.refusals, sent.statuses
    return figures


async def run(target: Target, seconds: float, only: str) -> bool:
    """Whether every bar holds."""
    await measure(target, "", 2.0)
    alone = statistics.median((await measure(target, "", seconds)).first)
    print(f"alone: first token after {alone * 1000:.0f} ms")
    held = True
    for kind in KINDS:
        if only not in kind:
            continue
        figures = await measure(target, kind, seconds)
        first = statistics.median(figures.first) / alone
        health, refusal = max(figures.health), max(figures.refusals)
        bars = {
            f"first token x {first:.2f} (worst {max(figures.first) * 1000:.0f} ms)": (
                first <= MOST_FIRST_TOKEN
            ),
            f"healthz {health * 1000:.0f} ms": health <= MOST_HEALTHZ,
            f"{figures.memory / MIB:.0f} MiB": figures.memory <= MOST_MEMORY,
            f"refused after {refusal * 1000:.0f} ms": refusal <= MOST_REFUSAL,
            f"{dict(figures.statuses)}": figures.statuses.keys() <= {0, 200, 400, 429},
        }
        held = held and all(bars.values())
        told = "; ".join(text if holds else f"NOT {text}" for text, holds in bars.items())
        print(f"{kind}: {told}", flush=True)
    return held


def served(url: str, key: str) -> str:
    headers = {"authorization": f"Bearer {key}"}
    models = httpx.get(f"{url}/v1/models", headers=headers, timeout=30).json()
    return str(models["data"][0]["id"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each kind")
    parser.add_argument("--only", default="", help="kinds whose name has this in it")
    options = parser.parse_args()
    with with_tenants(model_path(options.model), ("flood", "other")) as service:
        model = served(service.url, service.keys[0])
        target = Target(service.url, *service.keys, service.process.pid, model)
        sys.exit(0 if asyncio.run(run(target, options.seconds, options.only)) else 1)


if __name__ == "__main__":
    main()
