"""Counters of both kinds, by one interface, for contract tests."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from headrace.quotas.memory import MemoryStore
from headrace.quotas.store import Store
from headrace.quotas.valkey import ValkeyStore
from tests.servers.valkey import ValkeyServer


@pytest.fixture(scope="session")
def valkey() -> Iterator[ValkeyServer]:
    """A server that all tests share, each with accounts of its own."""
    with tempfile.TemporaryDirectory(prefix="vk") as folder:
        server = ValkeyServer(Path(folder))
        server.start()
        yield server
        server.kill()


@pytest.fixture
def own_valkey() -> Iterator[ValkeyServer]:
    """A server that a test may stop and kill."""
    with tempfile.TemporaryDirectory(prefix="vk") as folder:
        server = ValkeyServer(Path(folder))
        server.start()
        yield server
        server.kill()


@pytest.fixture(params=["memory", "valkey"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    server: ValkeyServer = request.getfixturevalue("valkey")
    shared = ValkeyStore(server.url, "edge-1")
    yield shared
    await shared.close()


@pytest.fixture
def account() -> str:
    return secrets.token_hex(8)
