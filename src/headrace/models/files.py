"""The file or files that one version of a model consists of."""

from __future__ import annotations

from pathlib import Path

from headrace.models.huggingface import checkpoint_files
from headrace.models.split import part_paths


def model_files(path: Path) -> list[Path]:
    """A GGUF file and the other parts of a split model, or what a folder's checkpoint is read
    from, in order of name. Raises ModelFileError where the folder holds none."""
    return checkpoint_files(path) if path.is_dir() else part_paths(path)


def state_of(path: Path) -> tuple[int, int]:
    """Size in bytes and the last time of change in ns, of all files together. Raises OSError
    where one is missing, ModelFileError as `model_files`."""
    states = [file.stat() for file in model_files(path)]
    return sum(s.st_size for s in states), max(s.st_mtime_ns for s in states)
