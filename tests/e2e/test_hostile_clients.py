"""Clients that hold connections: half-sent heads, bodies that dribble, answers never read."""

from __future__ import annotations

import json
import resource
import selectors
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from .conftest import Service, start, stop

FILES = 1024
HALF_A_HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nx-slow: "
HEAD_TIMEOUT, LINGER, SWEEP = 10.0, 2.0, 1.0


@pytest.fixture
def small(smollm2_path: Path, tmp_path: Path) -> Iterator[Service]:
    """A service that may have 1,024 open files."""
    service = start(smollm2_path, tmp_path, files=FILES)
    yield service
    stop(service)


class Crowd:
    """Connections, of which it is watched when they are closed."""

    def __init__(self, service: Service) -> None:
        self._address = ("127.0.0.1", int(service.url.rpartition(":")[2]))
        self._selector = selectors.DefaultSelector()
        self.open: set[socket.socket] = set()

    def connect(self, message: bytes, reads: bool = True) -> socket.socket:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(30)
        client.connect(self._address)
        client.sendall(message)
        client.setblocking(False)
        self.open.add(client)
        if reads:
            self._selector.register(client, selectors.EVENT_READ)
        return client

    def look(self) -> None:
        """Take out those that were closed."""
        for key, _ in self._selector.select(0):
            client = key.fileobj
            assert isinstance(client, socket.socket)
            try:
                gone = not client.recv(65536)
            except BlockingIOError:
                continue
            except ConnectionError:
                gone = True
            if gone:
                self._selector.unregister(client)
                self.open.discard(client)
                client.close()

    def close(self) -> None:
        self._selector.close()
        for client in self.open:
            client.close()


@pytest.fixture
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def healthy(service: Service) -> float:
    """Seconds until /healthz told, on a connection of its own, that the service lives."""
    began = time.monotonic()
    assert httpx.get(f"{service.url}/healthz", timeout=30).json() == {"status": "ok"}
    return time.monotonic() - began


@pytest.mark.heavy
def test_1100_half_sent_heads_neither_stay_nor_keep_anybody_out(
    small: Service, many_files: None
) -> None:
    crowd, waits = Crowd(small), list[float]()
    try:
        began = time.monotonic()
        for number in range(1100):
            crowd.connect(HALF_A_HEAD)
            if number % 50 == 0:
                waits.append(healthy(small))
        opened = time.monotonic()
        while crowd.open:
            crowd.look()
            waits.append(healthy(small))
            time.sleep(0.1)
            assert time.monotonic() < opened + 60, f"{len(crowd.open)} connections are still open"
        closed = time.monotonic()
    finally:
        crowd.close()
    print(
        f"opened in {opened - began:.1f} s, closed {closed - opened:.1f} s later; /healthz asked "
        f"{len(waits)} times, slowest {max(waits) * 1000:.0f} ms"
    )
    assert closed - opened < HEAD_TIMEOUT + LINGER + SWEEP + 5
    lines = [json.loads(line) for line in small.log.read_text().splitlines() if line[:1] == "{"]
    assert any(line["event"] == "too_many_connections" for line in lines)


def test_a_chat_goes_on_among_half_sent_heads_and_answers_that_nobody_reads(
    small: Service, many_files: None
) -> None:
    crowd = Crowd(small)
    never_read = b"GET /openapi.json HTTP/1.1\r\nhost: a\r\n\r\n" * 50
    before = psutil.Process(small.process.pid).memory_info().rss
    try:
        for _ in range(450):
            crowd.connect(never_read, reads=False)
            crowd.connect(HALF_A_HEAD)
        healthy(small)
        answer = small.client(max_retries=0).chat.completions.create(
            model=small.model,
            messages=[{"role": "user", "content": "Say hello."}],
            max_tokens=8,
            timeout=120,
        )
        assert answer.usage is not None
        assert answer.usage.completion_tokens > 0
        healthy(small)
    finally:
        crowd.close()
    grown = psutil.Process(small.process.pid).memory_info().rss - before
    assert grown < 300 << 20, "answers that nobody reads are kept"
    small.await_idle()
