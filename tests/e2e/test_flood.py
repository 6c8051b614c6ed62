"""One tenant sends what is expensive to prepare; the service refuses it and serves others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psutil

from tests.e2e.conftest import Service

MIB = 1 << 20
CHAT, COUNT, COMPLETE = "/v1/chat/completions", "/v1/messages/count_tokens", "/v1/completions"


def _said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


FLOODS = [
    (COUNT, _said("1" * 3_000_000)),
    (CHAT, _said("1" * 3_000_000)),
    (CHAT, _said("a" * 5_000_000)),
    (CHAT, _said("\n" * 1_000_000)),
    (CHAT, _said("1" * 15 * MIB)),
    (CHAT, _said("word, " * 200_000)),
    (COMPLETE, {"prompt": "1" * 3_000_000}),
    (COMPLETE, {"prompt": [1] * 1_000_000}),
    (COMPLETE, {"prompt": ["a"] * 100_000}),
]


def test_a_flood_of_huge_requests_is_refused_and_delays_nobody(service: Service) -> None:
    process = psutil.Process(service.process.pid)

    def send(path: str, body: dict[str, Any]) -> tuple[int, str | None]:
        with service.http() as http:
            answer = http.post(path, json={"model": service.model, **body})
            error = answer.json().get("error", {})
            return answer.status_code, error.get("code")

    with ThreadPoolExecutor(8) as pool:
        flood = [pool.submit(send, *request) for request in FLOODS * 2]
        with service.http() as http:
            answer = http.post(
                CHAT, json={"model": service.model, "max_tokens": 1, **_said("word " * 800)}
            )
            assert httpx.get(f"{service.url}/healthz", timeout=30).status_code == 200
        answers = [request.result(120) for request in flood]
    assert answer.status_code == 200
    assert {status for status, _ in answers} <= {400, 429}
    assert sum(code == "context_length_exceeded" for _, code in answers) >= len(FLOODS)
    assert process.memory_info().rss < 600 * MIB
