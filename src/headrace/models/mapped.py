"""Mapping a model file into memory, as every reader of one does first, and letting go of it."""

from __future__ import annotations

import mmap
from pathlib import Path

from headrace.models.errors import ModelFileError


def map_file(path: Path) -> mmap.mmap:
    """The whole file, read-only. Raises ModelFileError if it is empty or cannot be opened."""
    try:
        with path.open("rb") as file:
            if file.seek(0, 2) == 0:
                raise ModelFileError(path, "the file is empty")
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise ModelFileError(path, f"cannot be opened: {error.strerror}") from error


def release_pages(mapped: mmap.mmap, start: int, size: int) -> None:
    """Give the pages that lie wholly in these bytes back to the system."""
    first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    whole = (start + size) // mmap.PAGESIZE * mmap.PAGESIZE - first
    if whole > 0 and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED, first, whole)
