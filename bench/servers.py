"""The servers that the benchmark runs side by side, each with its best settings.

A server is set up once (peers: in an environment of their own under bench/.peers) and
started anew for every measurement, alone on the machine.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.load.client import Server

PEERS = Path(__file__).parent / ".peers"
KEY = "hr-bench_only-on-loopback"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


class Engine(ABC):
    """Something that serves a GGUF over OpenAI's API."""

    name: str
    health = "/health"

    def setup(self) -> None:  # noqa: B027 - Headrace itself needs none
        """Install what is missing. May take minutes the first time."""

    @abstractmethod
    def command(self, gguf: Path, port: int, streams: int) -> list[str]:
        """The command line for `streams` live requests."""

    def environment(self) -> dict[str, str]:
        return {}

    @contextmanager
    def serve(self, gguf: Path, streams: int) -> Iterator[Server]:
        """The running server; ended when the context is left.

        Raises RuntimeError with the end of its log if it dies or isn't ready in two minutes.
        """
        port = free_port()
        with tempfile.TemporaryFile() as log, tempfile.TemporaryDirectory() as scratch:
            env = {**os.environ, **self.environment(), "HEADRACE_DATA_DIR": scratch}
            process = subprocess.Popen(
                self.command(gguf, port, streams), stdout=log, stderr=log, env=env
            )
            try:
                self._await_ready(process, port, log)
                yield Server(url=f"http://127.0.0.1:{port}/v1", model=self.model(gguf), key=KEY)
            finally:
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def model(self, gguf: Path) -> str:
        return gguf.stem

    def _await_ready(self, process: subprocess.Popen[bytes], port: int, log: object) -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{self.health}", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        log.seek(0)  # type: ignore[attr-defined]
        tail = log.read()[-2000:].decode(errors="replace")  # type: ignore[attr-defined]
        raise RuntimeError(f"{self.name} did not come up:\n{tail}")


class Headrace(Engine):
    """This checkout, as `headrace serve` runs it."""

    name = "headrace"
    health = "/readyz"

    def command(self, gguf: Path, port: int, streams: int) -> list[str]:
        headrace = Path(sys.executable).with_name("headrace")
        return [str(headrace), "serve", "--model", str(gguf), "--port", str(port)]

    def environment(self) -> dict[str, str]:
        return {"HEADRACE_BOOTSTRAP_KEY": KEY}


class LlamaCpp(Engine):
    """llama.cpp's own server, built from the source that llama-cpp-python ships."""

    name = "llama.cpp"
    root = PEERS / "llama.cpp"

    def setup(self) -> None:
        if self._binary.exists():
            return
        self.root.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip"]
        run = subprocess.run
        run([*pip, "install", "--quiet", "cmake", "ninja", "scikit-build-core"], check=True)
        download = ["download", "--quiet", "--no-deps", "--no-build-isolation"]
        package = "llama-cpp-python"
        run([*pip, *download, "--no-binary", package, package], cwd=self.root, check=True)
        archive = next(self.root.glob("llama_cpp_python-*.tar.gz"))
        with tarfile.open(archive) as tar:
            tar.extractall(self.root, filter="data")
        source = next(self.root.glob("llama_cpp_python-*/vendor/llama.cpp"))
        cmake = str(Path(sys.executable).with_name("cmake"))
        off = ["CURL", "OPENSSL", "BUILD_TESTS", "BUILD_EXAMPLES", "BUILD_HTML", "BUILD_APP"]
        options = ["-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON"]
        options += [f"-DLLAMA_{name}=OFF" for name in off]
        build = str(self.root / "build")
        run([cmake, "-S", str(source), "-B", build, "-G", "Ninja", *options], check=True)
        targets = ["--target", "llama-server", "llama-quantize"]
        run([cmake, "--build", build, *targets], check=True)

    @property
    def _binary(self) -> Path:
        return self.root / "build" / "bin" / "llama-server"

    def command(self, gguf: Path, port: int, streams: int) -> list[str]:
        threads = str(os.cpu_count())
        context = 4608 if streams == 1 else streams * (1280 if streams == 16 else 512)
        shape = ["-np", str(streams), "-c", str(context), "-b", "2048", "-ub", "512"]
        place = ["--host", "127.0.0.1", "--port", str(port), "-t", threads, "-tb", threads]
        return [str(self._binary), "-m", str(gguf), *place, *shape, "-fa", "on", "--no-webui"]


ENGINES: dict[str, Engine] = {engine.name: engine for engine in (Headrace(), LlamaCpp())}
