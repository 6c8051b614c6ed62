"""What the service costs around the model: Headrace and LiteLLM's proxy, each over an engine that
costs nothing, on one core; the client and that engine have the other.

    python bench/edge.py

Headrace runs whole: keys, quotas (its tenant has limits of every kind, which it does not reach),
prices, charges in its database, metrics, its real tokenizer and template, its engine's process
(`fake_engine.py`). LiteLLM stands before `fake_upstream.py` with a
master key, without a database.

Requests one after another tell the latency that is added, to that of the upstream with nothing
before it ("direct"); many at once how many a second; streams how many events a second.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import psutil
import uvloop

from engines.engine import KEY, PEERS, free_port
from run import model_path

SERVER_CORE, CLIENT_CORE = 0, 1
PLENTY = 2**40
LIMITS = {
    "requests_per_minute": PLENTY,
    "input_tokens_per_minute": PLENTY,
    "output_tokens_per_minute": PLENTY,
    "concurrent_requests": PLENTY,
    "budget": "1000000.00",
}
PRICE = {"input": "0.10", "output": "0.40"}
BENCH = Path(__file__).parent


@dataclass
class Load:
    """What a measurement sends, and how: so many connections, each one request after another."""

    connections: int
    seconds: float
    stream: bool = False
    tokens: int = 1


@dataclass
class Tally:
    """What came back. latencies in seconds; events: of streams, [DONE] not counted. fault:
    the first answer that is none."""

    requests: int = 0
    events: int = 0
    faults: int = 0
    fault: str = ""
    latencies: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def quantile(self, share: float) -> float:
        ordered = sorted(self.latencies)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0


class Caller(asyncio.Protocol):
    """One connection that is kept alive: sends the next request when an answer is whole."""

    def __init__(self, message: bytes, tally: Tally, end: float) -> None:
        self._message, self._tally, self._end = message, tally, end
        self._buffer = bytearray()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._send()

    def _send(self) -> None:
        self._buffer.clear()
        self._begun = time.perf_counter()
        self._transport.write(self._message)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._is_whole():
            return
        now = time.perf_counter()
        tally = self._tally
        if self._buffer.startswith(b"HTTP/1.1 200"):
            tally.requests += 1
            tally.latencies.append(now - self._begun)
            tally.events += max(0, self._buffer.count(b"data: ") - 1)
        else:
            tally.faults += 1
            tally.fault = tally.fault or bytes(self._buffer).decode(errors="replace")
        if now < self._end:
            self._send()
        else:
            self._transport.close()
            if not self.done.done():
                self.done.set_result(None)

    def _is_whole(self) -> bool:
        buffer = self._buffer
        if buffer.endswith(b"\r\n0\r\n\r\n"):
            return True
        end = buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        _, found, rest = bytes(buffer[:end]).lower().partition(b"content-length:")
        return bool(found) and len(buffer) >= end + 4 + int(rest.partition(b"\r\n")[0])

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self._tally.faults += 1
            self.done.set_result(None)


async def measure(port: int, model: str, load: Load) -> Tally:
    body = msgspec.json.encode(
        {
            "model": model,
            "messages": [{"role": "user", "content": "Name three rivers of Europe, please."}],
            "max_tokens": load.tokens,
            "stream": load.stream,
        }
    )
    message = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n"
        f"authorization: Bearer {KEY}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    ).encode() + body
    tally, loop = Tally(), asyncio.get_running_loop()
    begun = time.perf_counter()
    callers = []
    for _ in range(load.connections):
        _, caller = await loop.create_connection(
            lambda: Caller(message, tally, begun + load.seconds), "127.0.0.1", port
        )
        callers.append(caller.done)
    await asyncio.gather(*callers)
    tally.seconds = time.perf_counter() - begun
    return tally


@contextmanager
def process(command: list[str], core: int, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    with tempfile.TemporaryFile() as log:
        child = subprocess.Popen(
            ["taskset", "-c", str(core), *command],
            env=os.environ | environment,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
        try:
            yield child
        finally:
            child.terminate()
            try:
                child.wait(15)
            except subprocess.TimeoutExpired:
                child.kill()


def await_answer(url: str, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            urllib.request.urlopen(url, timeout=2).close()
            return
        except OSError as error:
            if time.monotonic() > end:
                raise TimeoutError(f"{url}: {error}") from error
            time.sleep(0.2)


@contextmanager
def headrace(gguf: Path, pace: float) -> Iterator[tuple[int, str]]:
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(BENCH / "fake_serve.py"), "serve", "--port", str(port)]
        command += ["--model", str(gguf), "--max-sequences", "256", "--log-level", "warning"]
        command += ["--data-dir", folder, "--models-dir", f"{folder}/models"]
        pace_and_key = {"HEADRACE_TEST_PACE": str(pace), "HEADRACE_BOOTSTRAP_KEY": KEY}
        with process(command, SERVER_CORE, **pace_and_key) as serving:
            await_answer(f"http://127.0.0.1:{port}/readyz")
            for child in psutil.Process(serving.pid).children():  # the engine: the client's side
                os.sched_setaffinity(child.pid, {CLIENT_CORE})
            model = _served(port)
            _ask(port, "PATCH", "/admin/v1/tenants/default", {"limits": LIMITS})
            _ask(port, "POST", "/admin/v1/prices", {"model": model, **PRICE})
            yield port, model


@contextmanager
def direct() -> Iterator[tuple[int, str]]:
    port = free_port()
    command = [sys.executable, str(BENCH / "fake_upstream.py"), str(port)]
    with process(command, CLIENT_CORE):
        await_answer(f"http://127.0.0.1:{port}/")
        yield port, "fake"


@contextmanager
def litellm() -> Iterator[tuple[int, str]]:
    port = free_port()
    with direct() as (upstream, model), tempfile.TemporaryDirectory() as folder:
        config = {
            "model_list": [
                {
                    "model_name": model,
                    "litellm_params": {
                        "model": f"openai/{model}",
                        "api_base": f"http://127.0.0.1:{upstream}/v1",
                        "api_key": "none",
                    },
                }
            ],
            "general_settings": {"master_key": KEY},
            "litellm_settings": {"telemetry": False},
        }
        path = Path(folder) / "config.yaml"
        path.write_bytes(msgspec.json.encode(config))  # JSON is YAML
        proxy = [str(PEERS / "litellm/bin/litellm"), "--config", str(path), "--port", str(port)]
        with process([*proxy, "--host", "127.0.0.1"], SERVER_CORE, LITELLM_LOG="ERROR"):
            await_answer(f"http://127.0.0.1:{port}/health/liveliness")
            yield port, model


def _served(port: int) -> str:
    name: str = _ask(port, "GET", "/v1/models")["data"][0]["id"]
    return name


def _ask(port: int, method: str, path: str, body: object = None) -> dict[str, Any]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        None if body is None else msgspec.json.encode(body),
        {"authorization": f"Bearer {KEY}", "content-type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request) as answer:
        found: dict[str, Any] = msgspec.json.decode(answer.read())
    return found


def row(name: str, tally: Tally) -> None:
    p50, p99 = (1000 * tally.quantile(share) for share in (0.5, 0.99))
    print(
        f"{name:34} {tally.requests / tally.seconds:8.0f} req/s"
        f"  {tally.events / tally.seconds:8.0f} events/s"
        f"  p50 {p50:7.2f} ms  p99 {p99:7.2f} ms  faults {tally.faults}",
        flush=True,
    )
    if tally.fault:
        print(tally.fault[:500])


async def rounds(name: str, port: int, model: str, seconds: float) -> None:
    await measure(port, model, Load(4, 2))
    row(f"{name}, one at a time", await measure(port, model, Load(1, seconds)))
    row(f"{name}, 8 at once", await measure(port, model, Load(8, seconds)))
    row(f"{name}, 64 at once", await measure(port, model, Load(64, seconds)))
    row(
        f"{name}, 32 streams of 100",
        await measure(port, model, Load(32, seconds, stream=True, tokens=100)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--servers", nargs="+", default=["direct", "headrace", "litellm"])
    parser.add_argument("--streams", type=int, default=64, help="of the paced rounds")
    parser.add_argument("--rates", nargs="*", type=int, default=[40_000, 60_000, 80_000])
    chosen = parser.parse_args()
    os.sched_setaffinity(0, {CLIENT_CORE})
    gguf = model_path(chosen.model)
    if "direct" in chosen.servers:
        with direct() as (port, model):
            uvloop.run(rounds("direct", port, model, chosen.seconds))
    if "headrace" in chosen.servers:
        with headrace(gguf, pace=0.0) as (port, model):
            uvloop.run(rounds("headrace", port, model, chosen.seconds))
        for rate in chosen.rates:
            with headrace(gguf, pace=chosen.streams / rate) as (port, model):
                load = Load(chosen.streams, chosen.seconds, stream=True, tokens=1000)
                tally = uvloop.run(measure(port, model, load))
                row(f"headrace, {rate} tokens/s offered", tally)
    if "litellm" in chosen.servers:
        with litellm() as (port, model):
            uvloop.run(rounds("litellm", port, model, chosen.seconds))


if __name__ == "__main__":
    main()
