"""Mapping a model file into memory, as every reader of one does first."""

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
