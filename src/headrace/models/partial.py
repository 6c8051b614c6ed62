"""A file that is joined from named parts, and goes on where an earlier attempt stopped.

A part counts only once a journal on disk says so, written after the part itself. A later attempt
compares the journal with the bytes and goes on behind the last part that is right.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from headrace.models.disk import sync, write_atomically

CHUNK = 1 << 20


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
                hash_into(running, _read(file, part.end - self.size), progress, self.size)
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


def hash_file(path: Path, progress: Callable[[int], None]) -> str:
    """SHA-256 in hex of a file. progress: called with the bytes that were read."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        hash_into(digest, _read(file, path.stat().st_size), progress)
    return digest.hexdigest()


def _read(file: BinaryIO, count: int) -> Iterator[bytes]:
    while count > 0 and (chunk := file.read(min(CHUNK, count))):
        count -= len(chunk)
        yield chunk


def hash_into(
    digest: hashlib._Hash,
    chunks: Iterable[bytes],
    progress: Callable[[int], None],
    done: int = 0,
) -> None:
    for chunk in chunks:
        digest.update(chunk)
        done += len(chunk)
        progress(done)
