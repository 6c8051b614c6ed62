"""Crashes at bad moments, and what a caller and the books see of them."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from .conftest import KEY, Service, start, stop


@pytest.fixture
def own_service(smollm2_path: Path, tmp_path: Path) -> Service:
    """A service of the test's own, which it may kill."""
    service = start(smollm2_path, tmp_path)
    yield service
    stop(service)


def test_streams_of_a_dead_engine_go_on_as_if_nothing_had_been(own_service: Service) -> None:
    """Drawn at random, with penalties, stop texts and a schema: word for word."""
    client = own_service.client(max_retries=0)
    schema = {"type": "array", "minItems": 90, "items": {"type": "string", "minLength": 8}}
    asked: list[dict[str, Any]] = [
        {"extra_body": {"ignore_eos": True}, "frequency_penalty": 0.5},
        {"stop": ["\n\n\n\n", "zzz"], "extra_body": {"ignore_eos": True}, "n": 2},
        {"extra_body": {"structured_outputs": {"json": schema}}},
    ]

    def begin(options: dict[str, Any]) -> Iterator[Any]:
        return iter(
            client.completions.create(
                model=own_service.model,
                prompt="Count:",
                max_tokens=120,
                seed=7,
                stream=True,
                stream_options={"include_usage": True},
                **options,
            )
        )

    def told(chunks: Iterable[Any]) -> tuple[dict[int, str], dict[int, str], int]:
        texts: dict[int, str] = {}
        reasons: dict[int, str] = {}
        tokens = 0
        for chunk in chunks:
            tokens = chunk.usage.completion_tokens if chunk.usage else tokens
            for choice in chunk.choices:
                texts[choice.index] = texts.get(choice.index, "") + choice.text
                if choice.finish_reason:
                    reasons[choice.index] = choice.finish_reason
        return texts, reasons, tokens

    undisturbed = [told(begin(options)) for options in asked]
    streams = [begin(options) for options in asked]
    firsts = [list(islice(stream, 10)) for stream in streams]
    (worker,) = own_service.children()
    os.kill(worker, signal.SIGKILL)
    disturbed = [told([*first, *rest]) for first, rest in zip(firsts, streams, strict=True)]
    assert disturbed == undisturbed
    assert "requests_resumed" in own_service.log.read_text()
    assert own_service.children() != [worker]
    own_service.await_idle()
    (row,) = usage_rows(own_service)
    assert row["requests"] == 2 * len(asked)
    assert row["completion_tokens"] == 2 * sum(tokens for _, _, tokens in undisturbed)


@pytest.mark.heavy
@pytest.mark.timeout(1200)
def test_a_large_model_that_loads_for_long_is_a_pause_for_those_who_wait_too(
    tmp_path: Path,
) -> None:
    """Two places: of one request with four choices two run, two wait, and so do three others."""
    flags = ("--model", "qwen2.5-coder-1.5b", "--max-sequences", "2", "--context-length", "1024")
    service = start(None, tmp_path, *flags)
    try:
        asked = [(f"Number {n}:", 4 if n == 0 else 1) for n in range(4)]
        undisturbed = [_told(_begin(service, prompt, n)) for prompt, n in asked]
        answers: list[Any] = [None] * len(asked)

        def follow(index: int) -> None:
            prompt, n = asked[index]
            answers[index] = _told(_begin(service, prompt, n))

        threads = [threading.Thread(target=follow, args=(index,)) for index in range(len(asked))]
        for thread in threads:
            thread.start()
            time.sleep(0.5)
        deadline = time.monotonic() + 120
        while service.engine()["engine"]["running"] < 2:
            assert time.monotonic() < deadline
        (worker,) = service.children()
        os.kill(worker, signal.SIGKILL)
        for thread in threads:
            thread.join(600)
        assert answers == undisturbed
        assert service.children() != [worker]
        (row,) = usage_rows(service)
        assert row["requests"] == 2 * len(asked)
        assert row["completion_tokens"] == 2 * sum(tokens for _, tokens in undisturbed)
    finally:
        stop(service)


def _begin(service: Service, prompt: str, n: int) -> Iterable[Any]:
    return service.client(max_retries=0, timeout=900).completions.create(
        model=service.model,
        prompt=prompt,
        n=n,
        max_tokens=12,
        seed=7,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"ignore_eos": True},
    )


def _told(chunks: Iterable[Any]) -> tuple[dict[int, str], int]:
    """The choices' texts, and how many tokens they have in all."""
    texts: dict[int, str] = {}
    tokens = 0
    for chunk in chunks:
        tokens = chunk.usage.completion_tokens if chunk.usage else tokens
        for choice in chunk.choices:
            texts[choice.index] = texts.get(choice.index, "") + choice.text
    return texts, tokens


def test_a_stream_that_lost_four_engines_ends_with_an_error(own_service: Service) -> None:
    client = own_service.client(max_retries=0)
    stream = iter(
        client.completions.create(
            model=own_service.model,
            prompt="Count:",
            max_tokens=4000,
            stream=True,
            extra_body={"ignore_eos": True},
        )
    )
    with pytest.raises(openai.APIError, match="engine"):
        for _ in range(4):
            for _ in range(12):
                next(stream)
            (worker,) = own_service.children()
            os.kill(worker, signal.SIGKILL)
            deadline = time.monotonic() + 60
            while own_service.children() in ([], [worker]) or not is_ready(own_service):
                assert time.monotonic() < deadline
                time.sleep(0.1)
        for _ in stream:
            pass
    again = client.completions.create(model=own_service.model, prompt="Hello", max_tokens=4)
    assert again.choices[0].text
    rows = usage_rows(own_service)
    assert sum(row["requests"] for row in rows) == 2


def is_ready(service: Service) -> bool:
    return httpx.get(f"{service.url}/readyz", timeout=30).status_code == 200


def usage_rows(service: Service) -> list[dict[str, int]]:
    rows: list[dict[str, int]] = json.loads(service.command("usage", "--json").stdout)
    return rows


def test_a_killed_server_leaves_no_orphan_and_true_books(
    smollm2_path: Path, tmp_path: Path
) -> None:
    service = start(smollm2_path, tmp_path)
    client = service.client(max_retries=0)
    done = client.completions.create(model=service.model, prompt="Hello", max_tokens=4)

    def doomed() -> None:
        with pytest.raises(openai.APIConnectionError):
            client.completions.create(
                model=service.model,
                prompt="Hello",
                max_tokens=4000,
                extra_body={"ignore_eos": True},
            )

    thread = threading.Thread(target=doomed)
    thread.start()
    while service.engine()["engine"]["running"] == 0:
        time.sleep(0.02)
    workers = service.children()
    service.process.kill()
    service.process.wait()
    thread.join(60)
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < deadline, "the worker outlived its parent"
        time.sleep(0.05)

    again = start(smollm2_path, tmp_path)
    try:
        rows = usage_rows(again)
        assert done.usage is not None
        assert sum(row["completion_tokens"] for row in rows) == done.usage.completion_tokens
        assert sum(row["requests"] for row in rows) == 2
    finally:
        stop(again)


def printed(service: Service, text: str) -> str:
    """The line of the service's output that holds `text`, once it is there."""
    deadline = time.monotonic() + 60
    while True:
        for line in service.log.read_text().splitlines():
            if text in line:
                return line
        assert time.monotonic() < deadline, service.log.read_text()
        time.sleep(0.05)


def test_the_first_start_writes_a_key_once_and_it_works(smollm2_path: Path, tmp_path: Path) -> None:
    service = start(smollm2_path, tmp_path, key=None)
    file = tmp_path / "first-key"
    try:
        assert str(file) in printed(service, "The first key")
        key = file.read_text().strip()
        assert key.startswith("hr-")
        headers = {"authorization": f"Bearer {key}"}
        body = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 5}
        model = httpx.get(f"{service.url}/v1/models", headers=headers).json()["data"][0]["id"]
        answer = httpx.post(
            f"{service.url}/v1/chat/completions",
            json={"model": model, **body},
            headers=headers,
            timeout=60,
        )
        assert answer.json()["choices"][0]["message"]["content"]
        file.unlink()
    finally:
        stop(service)
    assert service.process.returncode == 0
    again = start(smollm2_path, tmp_path, key=None)
    try:
        printed(again, "Ctrl-C stops it")
        assert key not in again.log.read_text()
        assert not file.exists()
    finally:
        stop(again)


def test_keys_made_and_revoked_beside_the_running_service(service: Service) -> None:
    service.command("tenants", "create", "acme")
    made = json.loads(service.command("keys", "create", "--tenant", "acme", "--json").stdout)
    assert made["key"].startswith(f"hr-{made['id']}_")
    headers = {"authorization": f"Bearer {made['key']}"}

    def status() -> int:
        return httpx.get(f"{service.url}/v1/models", headers=headers).status_code

    assert status() == 200
    service.command("keys", "revoke", made["id"])
    deadline = time.monotonic() + 60
    while status() != 401:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    listed = service.command("keys", "list", "--json").stdout
    assert made["key"] not in listed
    database = b"".join(f.read_bytes() for f in service.data_dir.rglob("*") if f.is_file())
    assert made["key"].encode() not in database
    assert KEY.encode() not in database
