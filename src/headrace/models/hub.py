"""Model files of a repository on the Hugging Face hub.

Every file is compared with the checksum that the hub keeps of it: SHA-256 of large files, git's
own hash of small ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from headrace.models.disk import Progress, check_space, watched
from headrace.models.errors import CatalogueError
from headrace.models.huggingface import OWN_FILES, TEMPLATES
from headrace.models.partial import hash_file
from headrace.models.shards import SINGLE
from headrace.models.sources import HubSource
from headrace.models.split import part_paths

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoSibling

CHECKPOINT_FILES = (*OWN_FILES, TEMPLATES, SINGLE, "model-*.safetensors")
"""Of a repository with a checkpoint, those that a model is read from."""


class HubFile(msgspec.Struct, frozen=True):
    """A file as the hub describes it. sha256: of a large file. blob: git's hash of a small one."""

    name: str
    size: int
    sha256: str | None
    blob: str | None


def fetch_from_hub(source: HubSource, folder: Path, progress: Progress) -> Path:
    """Bring a file of a repository, or a checkpoint's files, into a folder; the path of it.

    Files that are there and whole are not fetched again, and one that stopped goes on.
    Raises CatalogueError if they cannot be had or are not what the hub says.
    """
    import huggingface_hub as hub
    from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]

    disable_progress_bars()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        info = hub.model_info(source.repository, revision=source.revision, files_metadata=True)
        files = _wanted(source, map(_described, info.siblings or ()))
        total = sum(file.size for file in files)
        check_space(folder, total)
        with watched(folder, lambda count: progress("downloading", count, total), 0):
            for file in files:
                hub.hf_hub_download(
                    source.repository, file.name, revision=info.sha, local_dir=folder
                )
    except CatalogueError:
        raise
    except Exception as error:  # which ones depends on the transport of the hub's release
        raise CatalogueError(f"{source} could not be downloaded: {_first_line(error)}") from error
    for file in files:
        _check(source, folder / file.name, file)
    return folder if source.file is None else part_paths(folder / source.file)[0]


def _wanted(source: HubSource, files: Iterable[HubFile]) -> list[HubFile]:
    if source.file is not None:
        there = {file.name: file for file in files}
        names = [str(path) for path in part_paths(Path(source.file))]
        if missing := [name for name in names if name not in there]:
            raise CatalogueError(f"{source}: the repository has no file {missing[0]!r}")
        return [there[name] for name in names]
    found = [
        file for file in files if any(fnmatch(file.name, pattern) for pattern in CHECKPOINT_FILES)
    ]
    if not any(file.name.endswith(".safetensors") for file in found):
        raise CatalogueError(
            f"{source}: the repository has no safetensors; name one of its GGUF files"
        )
    return found


def _described(sibling: RepoSibling) -> HubFile:
    return HubFile(
        name=sibling.rfilename,
        size=sibling.size or 0,
        sha256=sibling.lfs.sha256 if sibling.lfs else None,
        blob=sibling.blob_id,
    )


def _check(source: HubSource, path: Path, file: HubFile) -> None:
    """Raises CatalogueError, and removes the file, where it is not the hub's."""
    if file.sha256 is not None:
        expected, found = file.sha256, hash_file(path, lambda _: None)
    elif file.blob is not None:
        expected, found = file.blob, _blob_hash(path)
    else:
        return
    if found != expected:
        path.unlink()
        raise CatalogueError(f"{source} arrived damaged: {file.name} is {found}, not {expected}")


def _blob_hash(path: Path) -> str:
    """What git calls a blob: SHA-1 of its length and bytes."""
    data = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
