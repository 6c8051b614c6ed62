"""What every engine under test has in common: a server process that comes and goes."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from headrace.load.client import Server
from headrace.load.workload import Workload

PEERS = Path(__file__).parents[1] / ".peers"
KEY = "hr-bench_only-on-loopback"
THREADS = len(os.sched_getaffinity(0))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def cache_name(gguf: Path) -> str:
    """Of what is made from a model; installed models all have the same file name."""
    return f"{gguf.stem}-{gguf.stat().st_size}"


class Engine(ABC):
    """Something that serves a GGUF over OpenAI's API."""

    name: str
    health = "/health"
    patience = 120
    """Seconds until it must be ready."""

    def setup(self) -> None:  # noqa: B027 - Headrace itself needs none
        """Install what is missing. May take minutes the first time."""

    @abstractmethod
    def version(self) -> str:
        """What the results were measured with."""

    @abstractmethod
    def command(self, gguf: Path, port: int, workload: Workload) -> list[str]:
        """The command line of its server, with the best settings for the workload."""

    def environment(self) -> dict[str, str]:
        return {}

    def prepare(self, gguf: Path) -> Path:
        """The model as the engine reads it; converted the first time."""
        return gguf

    @contextmanager
    def serve(self, gguf: Path, workload: Workload) -> Iterator[Server]:
        """The running server; ended when the context is left.

        Raises RuntimeError with the end of its log if it dies or isn't ready in time.
        """
        model, port = self.prepare(gguf), free_port()
        with tempfile.TemporaryFile() as log, tempfile.TemporaryDirectory() as scratch:
            env = {**os.environ, **self.environment(), "HEADRACE_DATA_DIR": scratch}
            process = subprocess.Popen(
                self.command(model, port, workload), stdout=log, stderr=log, env=env
            )
            try:
                self._await_ready(process, port, log)
                yield Server(url=f"http://127.0.0.1:{port}/v1", model=model.stem, key=KEY)
            finally:
                process.terminate()
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def _await_ready(self, process: subprocess.Popen[bytes], port: int, log: BinaryIO) -> None:
        deadline = time.monotonic() + self.patience
        while time.monotonic() < deadline and process.poll() is None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{self.health}", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        log.seek(0)
        tail = log.read()[-2000:].decode(errors="replace")
        raise RuntimeError(f"{self.name} did not come up:\n{tail}")
