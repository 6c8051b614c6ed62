"""A model's version on disk, and the manifest that vouches for it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from headrace.models.disk import write_atomically
from headrace.models.errors import CatalogueError, ModelFileError
from headrace.models.files import state_of

MANIFEST = "manifest.json"


class ModelVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One content of a model.

    version: first 12 hex digits of `sha256`, which covers weights, tokenizer and template (a
    GGUF file holds all three). path: the file, or the folder of safetensors and what goes with
    them. size in bytes, mtime_ns as when it was hashed.
    formats: the container and how tensors are stored in it. installed_at: seconds since 1970.
    """

    name: str
    version: str
    sha256: str
    path: Path
    size: int
    mtime_ns: int
    source: str
    licence: str | None
    formats: tuple[str, ...]
    context_length: int | None
    installed_at: float

    def is_whole(self) -> bool:
        """Whether the file is, by size and time, the one that was hashed. Cheap."""
        try:
            return state_of(self.path) == (self.size, self.mtime_ns)
        except (OSError, ModelFileError):
            return False


def read_version(folder: Path) -> ModelVersion | None:
    """What the folder's manifest vouches for; None without one. The path comes out absolute.

    Raises CatalogueError if the manifest is not one.
    """
    path = folder / MANIFEST
    try:
        version = msgspec.json.decode(path.read_bytes(), type=ModelVersion, dec_hook=_decode)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise CatalogueError(f"{path} cannot be read: {error}") from error
    return msgspec.structs.replace(version, path=folder / version.path)


def write_version(folder: Path, version: ModelVersion) -> None:
    """Vouch for a version. A file inside the folder is written relative to it, so that the
    folder can be moved."""
    if version.path.is_relative_to(folder):
        version = msgspec.structs.replace(version, path=version.path.relative_to(folder))
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / MANIFEST, msgspec.json.encode(version, enc_hook=str))


def _decode(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise NotImplementedError(kind)
