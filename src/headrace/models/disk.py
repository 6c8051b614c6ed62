"""Writing files so that a crash leaves nothing half-written, and room on the disk."""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from headrace.models.errors import CatalogueError

POLL_SECONDS = 0.2

Progress = Callable[[str, int, int | None], None]
"""Called with what is being done ("downloading", "joining", "hashing", "waiting"), bytes done
and bytes in all (None if unknown)."""


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


def check_space(folder: Path, size: int) -> None:
    """Before a long download, not after it. What an earlier attempt left counts as there."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = size - disk_use(folder)
    free = shutil.disk_usage(folder).free
    if missing > free:
        raise CatalogueError(f"{folder}: {missing:,} bytes are needed and {free:,} are free")


@contextmanager
def watched(folder: Path, report: Callable[[int], None], start: int) -> Iterator[None]:
    """Report a folder's growing size, plus `start`, while something else fills it."""
    finished = threading.Event()

    def watch() -> None:
        while not finished.wait(POLL_SECONDS):
            report(start + disk_use(folder))

    thread = threading.Thread(target=watch, name="download-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()


def disk_use(folder: Path) -> int:
    """Bytes of the files below; those that vanish meanwhile count as none."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(root) / name).stat().st_size
            except FileNotFoundError:
                continue
    return total
