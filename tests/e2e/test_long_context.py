"""A prompt of a million tokens over HTTP, in stated memory, with short streams beside it."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.cli.doctor import OVERHEAD
from tests.models.endless import CONTEXT, write_endless

from .conftest import Service, start, stop

MEMORY = 512 << 20
STEP = 512
STREAMS = 4
VOCABULARY = 256


@pytest.fixture
def endless(
    tmp_path: Path, window: int | None, kv_cache: str, more: list[str]
) -> Iterator[Service]:
    running = start(
        write_endless(tmp_path / "endless.gguf", window),
        tmp_path,
        f"--memory={MEMORY}",
        f"--max-step-tokens={STEP}",
        "--max-sequences=8",
        f"--kv-cache={kv_cache}",
        *more,
    )
    yield running
    stop(running)


def peak_memory(pid: int) -> int:
    """Most bytes the process ever held."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return int(fields["VmHWM"].split()[0]) << 10


class Stream:
    """A short prompt whose answer goes on until it is cancelled. tokens: how many have come."""

    def __init__(self, http: httpx.AsyncClient, body: dict[str, Any]) -> None:
        self.tokens = 0
        self.begun = asyncio.Event()
        body = {**body, "stream": True, "ignore_eos": True, "max_tokens": CONTEXT // 16}
        self.task = asyncio.create_task(self._read(http, {**body, "logprobs": 0}))

    async def _read(self, http: httpx.AsyncClient, body: dict[str, Any]) -> None:
        async with http.stream("POST", "/v1/completions", json=body) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    self.tokens += len(json.loads(line[6:])["choices"][0]["logprobs"]["tokens"])
                    self.begun.set()


HEAVY = [pytest.mark.heavy, pytest.mark.timeout(3600)]  # two and 25 minutes, on two cores


@pytest.mark.parametrize(
    ("tokens", "window", "kv_cache", "more"),
    [
        pytest.param(131_072, None, "int8", [], id="131072"),
        pytest.param(65_536, None, "int16", ["--target-itl=20"], id="65536, beside the steps"),
        pytest.param(1_000_000, 131_072, "int16", [], id="a million, windowed", marks=HEAVY),
        pytest.param(1_000_000, None, "int16", [], id="a million", marks=HEAVY),
    ],
)
async def test_a_prompt_without_end(endless: Service, tokens: int, more: list[str]) -> None:
    prompt = random.Random(tokens).choices(range(VOCABULARY), k=tokens)
    async with endless.async_http() as http:
        http.timeout = httpx.Timeout(3600)
        body: dict[str, Any] = {"model": endless.model, "prompt": [1, 2, 3]}
        beside = [Stream(http, body) for _ in range(STREAMS)]
        await asyncio.gather(*(stream.begun.wait() for stream in beside))
        before = [stream.tokens for stream in beside]
        whole = {**body, "prompt": prompt, "max_tokens": 4, "ignore_eos": True, "logprobs": 1}
        response = await http.post("/v1/completions", json=whole)
        during = [stream.tokens - count for stream, count in zip(beside, before, strict=True)]
        for stream in beside:
            stream.task.cancel()
        await asyncio.gather(*(stream.task for stream in beside), return_exceptions=True)
    assert response.status_code == 200, response.text
    assert response.json()["usage"] == {
        **response.json()["usage"],
        "prompt_tokens": tokens,
        "completion_tokens": 4,
    }
    # Every step of the prompt gave every stream its token, and they arrived. Slices of steps are
    # as large as the machine is fast.
    assert min(during) > (20 if more else 0.9 * tokens / STEP), during
    stated = endless.await_idle()["memory"]["limit_bytes"]
    (engine,) = endless.children()
    assert peak_memory(engine) <= stated <= MEMORY
    assert peak_memory(endless.process.pid) <= OVERHEAD
