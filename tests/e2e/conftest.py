"""`headrace serve` as a process, with the real model, on a loopback port."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import openai
import psutil
import pytest

from tests import forked

KEY = "hr-e2e_a-key-for-tests-only"
PATIENT = ("--classes", '{"default": {"deadline": 600}}')
"""Flags of a service that refuses nobody because a busy machine is slow."""


@dataclass
class Service:
    """A running service and how to reach it."""

    process: subprocess.Popen[bytes]
    url: str
    key: str
    model: str
    data_dir: Path
    log: Path

    def client(self, **options: Any) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=self.key, **options)

    def http(self) -> httpx.Client:
        headers = {"authorization": f"Bearer {self.key}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=120)

    def async_http(self) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {self.key}"}
        limits = httpx.Limits(max_connections=400)
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=120, limits=limits)

    def engine(self) -> dict[str, Any]:
        """What the engine says of itself on /readyz."""
        body: dict[str, Any] = httpx.get(f"{self.url}/readyz", timeout=30).json()
        return body

    def await_idle(self, seconds: float = 120) -> dict[str, Any]:
        """Wait until nothing runs, waits or holds a block; the last reading."""
        deadline = time.monotonic() + seconds
        while True:
            body = self.engine()
            engine = body.get("engine", {})
            idle = engine.get("running") == 0 and engine.get("waiting") == 0
            if idle and engine["blocks_free"] + engine["blocks_cached"] == engine["blocks_total"]:
                return body
            assert time.monotonic() < deadline, f"not idle: {body}"
            time.sleep(0.05)

    def children(self) -> list[int]:
        """Process ids of the workers."""
        return [child.pid for child in psutil.Process(self.process.pid).children()]

    def command(self, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a `headrace` command on the same data directory."""
        return headrace(*args, data_dir=self.data_dir, check=check)


def headrace(
    *args: str, data_dir: Path, check: bool = True, **environment: str
) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "HEADRACE_DATA_DIR": str(data_dir), **environment}
    done = forked.run(args, env, data_dir)
    if check:
        done.check_returncode()
    return done


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def start(
    model: Path | None,
    data_dir: Path,
    *flags: str,
    key: str | None = KEY,
    files: int | None = None,
) -> Service:
    """Start the service and wait until it is ready to serve. model: None if flags say which.
    files: how many open files it may have."""
    port = free_port()
    log = data_dir / "serve.log"
    env = {**os.environ, "HEADRACE_DATA_DIR": str(data_dir)}
    if key:
        env["HEADRACE_BOOTSTRAP_KEY"] = key
    command = [sys.executable, "-m", "headrace.cli.main", "serve"]
    command += ["--model", str(model)] if model else []
    command += ["--port", str(port), *flags]
    if files is not None:
        command = ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh", *command]
    with log.open("wb") as sink:
        process = subprocess.Popen(command, env=env, stdout=sink, stderr=sink)
    service = Service(process, f"http://127.0.0.1:{port}", key or "", "", data_dir, log)
    deadline = time.monotonic() + 180
    while True:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        try:
            if httpx.get(f"{service.url}/readyz", timeout=5).status_code == 200:
                break
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    if key:
        service.model = service.client().models.list().data[0].id
    return service


def stop(service: Service) -> None:
    service.process.send_signal(signal.SIGTERM)
    try:
        service.process.wait(20)
    except subprocess.TimeoutExpired:
        service.process.kill()
        service.process.wait()


@pytest.fixture(scope="session")
def service(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    running = start(smollm2_path, tmp_path_factory.mktemp("service"), *PATIENT)
    yield running
    stop(running)


@pytest.fixture(scope="session")
def coder(coder_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """With a model that follows instructions well enough to use tools."""
    running = start(coder_path, tmp_path_factory.mktemp("coder"), *PATIENT)
    yield running
    stop(running)
