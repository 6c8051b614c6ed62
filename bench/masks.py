"""What one tenant's recursive tool schema does to another's requests.

    python bench/masks.py --model smollm2-135m

The bench starts a service. One tenant sends a large request: its tool has twelve objects that refer
to one another, with property names that no earlier request had. At the same time a plain stream
runs, and another tenant sends small requests with a schema of one property.

The bench prints the worker's processor time for the large request and for a plain prompt of as
many tokens, the latency of small requests without and with the large one (the stream always runs),
and the largest gap between two tokens of the stream. The exit code is 1 if the median small request
takes more than twice its time without the large one, or if a gap is 300 ms or more. Run it on a
quiet machine.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import httpx
import psutil

from engines.headrace import with_tenants
from run import model_path

MOST_RATIO = 2.0
MOST_GAP = 0.3
DEFINITIONS = 12
ONE_PROPERTY = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
    "additionalProperties": False,
}
ASK = "Fill in the form."
STORY = "Tell a long story about a lighthouse."


def recursive_tool(tag: str) -> dict[str, Any]:
    """A request's fields for a tool whose parameters are twelve objects that refer to each other.

    tag: part of every property's name.
    """
    properties = {
        f"{tag}c{other}": {"anyOf": [{"$ref": f"#/$defs/N{other}"}, {"type": "null"}]}
        for other in range(DEFINITIONS)
    }
    one = {"type": "object", "properties": properties, "additionalProperties": False}
    parameters = {
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/N0"}},
        "$defs": {f"N{index}": one for index in range(DEFINITIONS)},
    }
    function = {"name": "f", "parameters": parameters}
    return {"tools": [{"type": "function", "function": function}], "tool_choice": "required"}


@dataclass
class Stream:
    """A plain stream that runs until `stopped` is set, and the arrival times of its events."""

    client: httpx.Client
    model: str
    times: list[float] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)
    ended: bool = False

    def run(self) -> None:
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": STORY}],
            "max_tokens": 8000,
            "stream": True,
            "ignore_eos": True,
        }
        with self.client.stream("POST", "/v1/chat/completions", json=body) as response:
            response.raise_for_status()
            for line in response.iter_lines():
                if line.startswith("data: {"):
                    self.times.append(time.perf_counter())
                if self.stopped.is_set():
                    return
        self.ended = True

    def largest_gap(self, begin: float, end: float) -> float:
        """Between two events within an interval, in seconds. Exits where the stream has ended."""
        if self.ended:
            raise SystemExit("the plain stream ended before the measurement did")
        times = [begin, *(at for at in self.times if begin <= at <= end), end]
        return max(later - sooner for sooner, later in pairwise(times))


class Bench:
    """One service, reached as two tenants."""

    def __init__(self, url: str, keys: list[str], worker: psutil.Process) -> None:
        self.clients = [
            httpx.Client(base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=300)
            for key in keys
        ]
        self.worker = worker
        self.model = self.clients[0].get("/v1/models").json()["data"][0]["id"]

    def cpu(self) -> float:
        """Seconds of processor time of the worker."""
        times = self.worker.cpu_times()
        return float(times.user + times.system)

    def ask(self, client: httpx.Client, content: str, **fields: Any) -> dict[str, Any]:
        messages = [{"role": "user", "content": content}]
        body = {"model": self.model, "messages": messages, "temperature": 0, **fields}
        response = client.post("/v1/chat/completions", json=body)
        response.raise_for_status()
        answer: dict[str, Any] = response.json()
        return answer

    def small(self, seed: int) -> float:
        """Seconds that a request with a schema of one property takes."""
        schema = {"name": "small", "schema": ONE_PROPERTY}
        begun = time.perf_counter()
        self.ask(
            self.clients[1],
            f"{seed}: is water wet?",
            max_tokens=12,
            response_format={"type": "json_schema", "json_schema": schema},
        )
        return time.perf_counter() - begun

    def large(self, tag: str) -> tuple[float, int]:
        """Processor time of a request with a recursive tool, and the tokens of its prompt."""
        before = self.cpu()
        answer = self.ask(self.clients[0], ASK, max_tokens=30, **recursive_tool(tag))
        return self.cpu() - before, answer["usage"]["prompt_tokens"]

    def plain(self, words: int) -> tuple[float, int]:
        """The same of a prompt without a tool."""
        before = self.cpu()
        text = " ".join(f"{index} lights" for index in range(words))
        answer = self.ask(self.clients[0], text, max_tokens=30)
        return self.cpu() - before, answer["usage"]["prompt_tokens"]


def measure(bench: Bench, rounds: int) -> bool:
    """Whether both bars were held."""
    _, prompt = bench.large("w10")
    plain_cpu, plain_tokens = bench.plain(prompt // 5)
    stream = Stream(bench.clients[1], bench.model)
    following = threading.Thread(target=stream.run)
    following.start()
    alone: list[float] = []
    together: list[float] = []
    gaps: list[float] = []
    costs: list[float] = []
    try:
        for seed in range(4 * rounds):
            alone.append(bench.small(seed))
        for each in range(rounds):
            begun = time.perf_counter()
            large = threading.Thread(target=lambda: costs.append(bench.large(f"r{each}")[0]))  # noqa: B023
            large.start()
            while large.is_alive():
                together.append(bench.small(1000 + len(together)))
            large.join()
            gaps.append(stream.largest_gap(begun, time.perf_counter()))
    finally:
        stream.stopped.set()
        following.join()
    ratio = max(together) / statistics.median(alone)
    middle = statistics.median(together) / statistics.median(alone)
    print(f"a plain prompt of {plain_tokens} tokens: {plain_cpu:.1f} s of processor time")
    print(f"a recursive tool, prompt of {prompt} tokens: {statistics.median(costs):.1f} s")
    print(f"one-property schema alone: {statistics.median(alone) * 1000:.0f} ms")
    print(f"  with the tool: median x {middle:.2f}, worst x {ratio:.2f} of {len(together)}")
    print(f"largest gap of a plain stream: {max(gaps) * 1000:.0f} ms")
    return middle <= MOST_RATIO and max(gaps) < MOST_GAP


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--model", default="smollm2-135m", help="catalogue name or GGUF path")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with with_tenants(model_path(arguments.model), ("recursive", "others")) as service:
        (worker,) = service.process.children()
        bench = Bench(service.url, service.keys, worker)
        sys.exit(0 if measure(bench, arguments.rounds) else 1)


if __name__ == "__main__":
    main()
