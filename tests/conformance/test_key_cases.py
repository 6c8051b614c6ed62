"""Faults of keys that users met in other servers, by their ids: edges that are processes, on one
database of each kind."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import URL

from headrace.access.bootstrap import ensure_bootstrap_key
from headrace.store.database import Database
from headrace.store.files import make_pepper
from tests import forked
from tests.edge.admin.conftest import ROOT, headquarters_of, make_root

ADMIN = {"authorization": f"Bearer {ROOT.text}"}
PATIENCE = 5.0
"""Seconds: half a one is meant, the rest is for machines that are busy otherwise. Keys are
forgotten after a minute by themselves, which is not what is tested."""


@pytest.fixture(params=["sqlite_url", "postgresql_url"])
def url(request: pytest.FixtureRequest) -> URL:
    found: URL = request.getfixturevalue(request.param)
    return found


class Edge:
    """A process that serves, as `tests.conformance.edge` says."""

    def __init__(self, process: asyncio.subprocess.Process, base_url: str) -> None:
        self._process = process
        self.http = httpx.AsyncClient(base_url=base_url)

    @classmethod
    async def start(cls, url: URL, pepper: bytes) -> Edge:
        arguments = "-m", "tests.conformance.edge", url.render_as_string(hide_password=False)
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, pepper.hex(), stdin=pipe, stdout=pipe
        )
        assert process.stdout is not None
        return cls(process, (await process.stdout.readline()).decode().strip())

    async def stop(self) -> None:
        await self.http.aclose()
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert await self._process.wait() == 0

    async def administer(self, path: str, **body: object) -> Any:
        response = await self.http.post(f"/admin/v1{path}", json=body or None, headers=ADMIN)
        assert response.is_success, response.text
        return response.json()

    async def status(self, key: str) -> int:
        """What the key is answered."""
        headers = {"authorization": f"Bearer {key}"}
        return (await self.http.get("/v1/models", headers=headers)).status_code


@asynccontextmanager
async def two_edges(url: URL, folder: Path) -> AsyncIterator[tuple[Edge, Edge]]:
    """With `ROOT` as a key of both."""
    pepper = make_pepper(folder)
    database = Database.open(url)
    ensure_bootstrap_key(database, pepper, ROOT.text)
    database.close()
    one, two = await asyncio.gather(*(Edge.start(url, pepper) for _ in range(2)))
    yield one, two
    await asyncio.gather(one.stop(), two.stop())


async def headrace(folder: Path, url: URL, *arguments: str) -> Any:
    """What a command prints, as the process that it is."""
    flags = "--database-url", url.render_as_string(hide_password=False), "--data-dir", str(folder)
    command = *arguments, *flags, "--json"
    done = await asyncio.to_thread(forked.run, command, dict(os.environ), folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


async def become(edges: tuple[Edge, Edge], key: str, wanted: int) -> None:
    """Both answer the key so, before long."""
    since = time.monotonic()
    for edge in edges:
        while (found := await edge.status(key)) != wanted:
            assert time.monotonic() - since < PATIENCE, found
            await asyncio.sleep(0.005)
    assert [await edge.status(key) for edge in edges] == [wanted] * 2


async def test_ky_01_what_one_process_changes_holds_at_every_edge(url: URL, tmp_path: Path) -> None:
    async with two_edges(url, tmp_path) as edges:
        one, two = edges
        await one.administer("/tenants", name="acme")
        made = await two.administer("/keys", tenant="acme")
        key, id = made["key"], made["id"]
        await become(edges, key, 200)
        await headrace(tmp_path, url, "tenants", "disable", "acme")
        await become(edges, key, 403)
        await headrace(tmp_path, url, "tenants", "enable", "acme")
        await become(edges, key, 200)
        await one.administer(f"/keys/{id}/revoke")
        assert await one.status(key) == 401  # those who asked it know already
        await become(edges, key, 401)


async def test_ky_01_a_revocation_that_cannot_be_written_fails(sqlite_url: URL) -> None:
    database = Database.open(sqlite_url, lock_seconds=0.05)
    make_root(database)
    other = Database.open(sqlite_url)
    async with headquarters_of(database) as hq:
        await hq.ask("POST", "/tenants", 201, name="acme")
        key = await hq.new_key()
        with other.transaction(write=True):
            refused = await hq.http.post(f"/keys/{key['id']}/revoke")
        assert refused.status_code == 503
        assert await hq.models_status(key["key"]) == 200
        await hq.ask("POST", f"/keys/{key['id']}/revoke")
        assert await hq.models_status(key["key"]) == 401
    database.close()
    other.close()
