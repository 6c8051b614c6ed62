"""Many clients at once: exact counts, and nothing left behind when they vanish."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import httpx

from headrace.load.client import Request, Server, complete

from .conftest import Service


async def test_32_streams_complete_with_exact_token_counts(service: Service) -> None:
    server = Server(url=f"{service.url}/v1", model=service.model, key=service.key)
    requests = [
        Request(prompt=random.choices(range(1000, 40000), k=40 + i), output=20 + i)
        for i in range(32)
    ]
    timings = await asyncio.gather(*(complete(server, request) for request in requests))
    assert [t.tokens for t in timings] == [20 + i for i in range(32)]
    assert [t.prompt_tokens for t in timings] == [40 + i for i in range(32)]
    service.await_idle()


async def test_200_dropped_connections_leave_nothing_behind(service: Service) -> None:
    """Half of them stream; they vanish at every stage: queued, in prefill, in decode."""

    async def open_and_drop(client: httpx.AsyncClient, i: int) -> None:
        body: dict[str, Any] = {"model": service.model, "prompt": [1000 + i] * (50 + 5 * i)}
        body |= {"max_tokens": 2000, "ignore_eos": True, "stream": i % 2 == 0}
        request = client.post("/v1/completions", json=body)
        try:
            answer = await asyncio.wait_for(request, timeout=random.uniform(0.01, 1.5))
        except TimeoutError:
            return
        # 2,000 tokens can't be there yet, but who would wait too long is told so at once.
        assert answer.status_code == 529, answer.text

    async with service.async_http() as client:
        await asyncio.gather(*(open_and_drop(client, i) for i in range(200)))
    service.await_idle()
    with service.http() as http:
        again = http.post(
            "/v1/completions", json={"model": service.model, "prompt": "One", "max_tokens": 3}
        )
    assert again.status_code == 200


async def test_a_request_is_not_changed_by_its_neighbours(service: Service) -> None:
    """The same seeded request alone and among 31 others: same text, same logprobs."""
    body: dict[str, Any] = {"model": service.model, "prompt": "The sea is", "max_tokens": 24}
    body |= {"temperature": 0.9, "seed": 11, "logprobs": 3}
    body["service_tier"] = "flex"  # has the patience for a crowd, however slow the machine

    async def ask(client: httpx.AsyncClient, body: dict[str, Any]) -> Any:
        response = await client.post("/v1/completions", json=body)
        assert response.status_code == 200, response.text
        return response.json()["choices"]

    async with service.async_http() as client:
        alone = await ask(client, body)
        others = [
            {**body, "prompt": random.choices(range(1000, 40000), k=30 + 9 * i), "seed": i}
            for i in range(31)
        ]
        crowd = await asyncio.gather(*(ask(client, b) for b in [*others, body]))
    assert crowd[-1] == alone
