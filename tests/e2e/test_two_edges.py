"""Two services on one PostgreSQL and one Valkey, with the real model: they hold one limit between
them, and the death of either server in mid-load loses no request that was admitted."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import create_engine, text

from tests.servers.postgresql import PostgresServer
from tests.servers.valkey import ValkeyServer

from .conftest import Service, headrace, start, stop

SMALL = ("--threads", "1", "--kv-memory", "64MiB", "--context-length", "512")
TOKENS = 64


@dataclass
class Edges:
    """Both services and what they stand on."""

    services: list[Service]
    postgres: PostgresServer
    valkey: ValkeyServer
    database_url: str
    _numbers: Iterator[int] = field(default_factory=count)

    def tenant(self, **limits: object) -> str:
        """A new one with a key, whose text this is."""
        name = f"tenant-{next(self._numbers)}"
        flags = [f"--{n.replace('_', '-')}={value}" for n, value in limits.items()]
        self._command("tenants", "create", name, *flags)
        made = self._command("keys", "create", "--tenant", name, "--json")
        key: str = json.loads(made)["key"]
        return key

    def _command(self, *arguments: str) -> str:
        folder = self.services[0].data_dir
        return headrace(*arguments, data_dir=folder, HEADRACE_DATABASE_URL=self.database_url).stdout

    def metric(self, service: Service, name: str) -> float:
        lines = httpx.get(f"{service.url}/metrics", timeout=30).text.splitlines()
        return float(next(line.split()[-1] for line in lines if line.startswith(f"{name} ")))

    def charges(self, ids: list[str]) -> list[tuple[str, int]]:
        """How requests ended and what they generated."""
        engine = create_engine(self.database_url)
        query = text(
            "SELECT ending, completion_tokens FROM charges WHERE request_id = ANY(:ids) "
            "ORDER BY request_id"
        )
        with engine.connect() as connection:
            rows = [(row[0], row[1]) for row in connection.execute(query, {"ids": ids})]
        engine.dispose()
        return rows


@pytest.fixture(scope="module")
def edges(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edges]:
    with (
        tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as pg_folder,
        tempfile.TemporaryDirectory(prefix="vk") as valkey_folder,
    ):
        postgres, valkey = PostgresServer(Path(pg_folder)), ValkeyServer(Path(valkey_folder))
        postgres.start()
        valkey.start()
        url = postgres.url.set(database="postgres").render_as_string(hide_password=False)
        flags = (*SMALL, "--database-url", url, "--valkey-url", valkey.url)
        folders = [tmp_path_factory.mktemp(name) for name in ("one", "two")]
        services = [start(smollm2_path, folders[0], *flags)]
        try:
            shutil.copy(folders[0] / "pepper", folders[1])  # keys are the same for both
            services.append(start(smollm2_path, folders[1], *flags))
            yield Edges(services, postgres, valkey, url)
        finally:
            for service in services:
                stop(service)
            valkey.kill()
            postgres.kill()


@dataclass
class Asked:
    """A streamed request: its id, its status, when it got a token and whether it ended well."""

    id: str
    key: str
    status: int = 0
    error: Any = None
    began: asyncio.Event = field(default_factory=asyncio.Event)
    complete: bool = False


async def ask(service: Service, asked: Asked, tokens: int = TOKENS) -> Asked:
    body = {
        "model": service.model,
        "prompt": "Once upon a time",
        "max_tokens": tokens,
        "stream": True,
        "ignore_eos": True,
    }
    headers = {"authorization": f"Bearer {asked.key}", "x-request-id": asked.id}
    async with (
        httpx.AsyncClient(base_url=service.url, timeout=120) as http,
        http.stream("POST", "/v1/completions", json=body, headers=headers) as response,
    ):
        asked.status = response.status_code
        if asked.status != 200:
            asked.error = json.loads(await response.aread())["error"]
            return asked
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                asked.began.set()
            assert '"error"' not in line, line
            asked.complete = asked.complete or line == "data: [DONE]"
    return asked


def load(edges: Edges, key: str, name: str, number: int) -> tuple[list[Asked], list[asyncio.Task]]:
    """So many requests, to each edge in turn."""
    asked = [Asked(f"{name}-{n:03}", key) for n in range(number)]
    tasks = [asyncio.create_task(ask(edges.services[n % 2], each)) for n, each in enumerate(asked)]
    return asked, tasks


async def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not await asyncio.to_thread(condition):  # noqa: ASYNC110
            await asyncio.sleep(0.1)


def all_shared(edges: Edges) -> bool:
    return all(
        not edges.metric(service, "headrace_quota_alone")
        and edges.metric(service, "headrace_quota_edges") == 2
        for service in edges.services
    )


async def test_they_hold_one_limit_between_them(edges: Edges) -> None:
    await until(lambda: all_shared(edges))
    key = await asyncio.to_thread(edges.tenant, requests_per_minute=20)
    begun = time.monotonic()
    asked = [Asked(f"limit-{n:03}", key) for n in range(40)]
    for first in range(0, 40, 8):  # not all at once: what is tested is counting, not patience
        batch = asked[first : first + 8]
        await asyncio.gather(*(ask(edges.services[n % 2], a, 2) for n, a in enumerate(batch)))
    passed = [each for each in asked if each.status == 200]
    came_back = (time.monotonic() - begun) * 20 / 60 + 1
    alone = sum(edges.metric(s, "headrace_quota_decided_alone_total") for s in edges.services)
    assert 20 <= len(passed) <= 20 + came_back + alone
    assert all(each.complete for each in passed)
    assert {each.status for each in asked} == {200, 429}


async def test_the_death_of_valkey_loses_nothing_and_opens_no_gate(edges: Edges) -> None:
    await until(lambda: all_shared(edges))
    key = await asyncio.to_thread(edges.tenant, concurrent_requests=8)
    asked, tasks = load(edges, key, "valkey", 8)
    await asyncio.gather(*(each.began.wait() for each in asked))
    edges.valkey.kill()
    more, refused = load(edges, key, "more", 6)
    await asyncio.gather(*refused)
    assert {each.status for each in more} <= {200, 429}, [each.error for each in more]
    over = sum(each.status == 200 for each in more)
    assert over <= sum(task.done() for task in tasks)  # only for those that ended
    await asyncio.gather(*tasks)
    assert all(each.status == 200 and each.complete for each in asked)
    late, alone = load(edges, key, "alone", 4)
    await asyncio.gather(*alone)
    assert all(each.complete for each in late)  # each edge has half of eight
    edges.valkey.start()
    await until(lambda: all_shared(edges))
    again, shared = load(edges, key, "again", 8)
    await asyncio.gather(*shared)
    assert all(each.complete for each in again)
    ids = [each.id for each in (*asked, *late, *again)]
    assert edges.charges(ids) == [("length", TOKENS)] * len(ids)


async def test_the_death_of_postgres_loses_nothing(edges: Edges) -> None:
    key = await asyncio.to_thread(edges.tenant, requests_per_minute=1000, concurrent_requests=8)
    asked, tasks = load(edges, key, "postgres", 8)
    await asyncio.gather(*(each.began.wait() for each in asked))
    await asyncio.to_thread(edges.postgres.kill)
    turned_away = await ask(edges.services[0], Asked("down-000", key), 2)
    assert turned_away.status in (429, 503)
    await asyncio.to_thread(edges.postgres.start)
    await asyncio.gather(*tasks)
    assert all(each.status == 200 and each.complete for each in asked)
    assert edges.charges([each.id for each in asked]) == [("length", TOKENS)] * 8
    again, tasks = load(edges, key, "recovered", 4)
    await asyncio.gather(*tasks)
    assert all(each.complete for each in again)
