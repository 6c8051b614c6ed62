"""The models there are: built in, added by the user, or named by their source.

On disk, under the models directory, which installations may share:

    NAME/entry.json              an added model: where it comes from
    NAME/VERSION/model.gguf      its file, or
    NAME/VERSION/checkpoint/     its files
    NAME/VERSION/manifest.json   written last: what was hashed, and its size and time
    NAME/local-…/manifest.json   the same for a local source, whose file stays where it is
    NAME/partial/                a download under way, or one to be resumed
    .locks/NAME                  held while the above is changed
"""

from __future__ import annotations

import errno
import hashlib
import re
import shutil
import time
from collections.abc import Collection
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from headrace.hints import did_you_mean
from headrace.models.disk import Progress, locked, sync, sync_folder, write_atomically
from headrace.models.download import Fetched, fetch, hash_model
from headrace.models.entry import VERSION_DIGITS, ModelEntry, known_models
from headrace.models.errors import CatalogueError, ModelFileError
from headrace.models.files import model_files, state_of
from headrace.models.huggingface import HuggingFaceCheckpoint
from headrace.models.sources import LocalSource, Source, is_source, parse_source
from headrace.models.split import read_model
from headrace.models.version import MANIFEST, ModelVersion, read_version, write_version

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def _silent(stage: str, done: int, total: int | None) -> None:
    """Progress that nobody watches."""


class Catalogue:
    """The models of one models directory.

    A `model` argument is a name, a path or a source (`hf:…`, `pypi:…`). Every method raises
    CatalogueError for a model that is not known.
    """

    def __init__(self, models_dir: Path) -> None:
        self._root = models_dir

    def names(self) -> list[str]:
        """Built-in models first, then those added or installed here, in order."""
        here = {path.parent.name for path in self._root.glob("*/entry.json")}
        here |= {path.parent.parent.name for path in self._root.glob(f"*/*/{MANIFEST}")}
        known = known_models()
        return [*known, *sorted(here - known.keys())]

    def get(self, model: str) -> ModelEntry:
        if entry := known_models().get(model) or self._added(model):
            return entry
        if is_source(model):
            source = parse_source(model)
            return ModelEntry(name=_safe_name(source.stem), source=str(source))
        if versions := self._versions(model):
            return ModelEntry(name=model, source=versions[-1].source, licence=versions[-1].licence)
        names = self.names()
        hint = did_you_mean(model, names) or f"; there are {', '.join(names)}"
        raise CatalogueError(f"no model is called {model!r}{hint}")

    def add(
        self,
        name: str,
        source: str,
        *,
        licence: str | None = None,
        sha256: str | None = None,
        replace: bool = False,
    ) -> ModelEntry:
        """Give a source a name. Nothing is fetched. replace: the name may stand for another source
        so far, whose installed versions stay until they are pruned."""
        if not _NAME.fullmatch(name):
            raise CatalogueError(f"{name!r} cannot be a name: letters, digits, '.', '_' and '-'")
        if sha256 is not None and not re.fullmatch(r"[0-9a-f]{64}", sha256):
            raise CatalogueError("a SHA-256 has 64 hexadecimal digits")
        if name in known_models() or (self._added(name) and not replace):
            raise CatalogueError(f"there is a model called {name!r} already")
        text = str(parse_source(source))
        entry = ModelEntry(name=name, source=text, licence=licence, sha256=sha256)
        self._folder(name).mkdir(parents=True, exist_ok=True)
        write_atomically(self._folder(name) / "entry.json", msgspec.json.encode(entry))
        return entry

    def remove(self, name: str) -> None:
        """Delete a model's files, and its entry unless it is built in. A local source's file
        stays."""
        entry = self.get(name)
        with self._locked(entry.name, _silent):
            for manifest in self._folder(entry.name).glob(f"*/{MANIFEST}"):
                manifest.unlink()  # first, so that no version outlives part of its files
            shutil.rmtree(self._folder(entry.name), ignore_errors=True)

    def prune(self, name: str, keep: Collection[str]) -> list[ModelVersion]:
        """Delete the versions of a model that are neither its default nor in `keep`; those that
        went. None goes while the default is not installed. A local source's file stays."""
        entry = self.get(name)
        with self._locked(entry.name, _silent):
            default = self._default(entry)
            if default is None:
                return []
            spared = {*keep, default.version}
            going = [v for v in self._versions(entry.name) if v.version not in spared]
            for version in going:
                folder = self._folder_of(version)
                (folder / MANIFEST).unlink()
                shutil.rmtree(folder, ignore_errors=True)
        return going

    def versions(self, model: str) -> list[ModelVersion]:
        """All that are installed, the oldest first, whole or not."""
        return self._versions(self.get(model).name)

    def installed(self, model: str) -> ModelVersion | None:
        """The default version, if its file is there and is the one that was hashed (by size
        and time; `verify` reads it)."""
        return self._installed(self.get(model))

    def pull(self, model: str, progress: Progress = _silent) -> ModelVersion:
        """Install the default version unless it is installed; blocks, possibly for minutes.

        Resumes what an earlier call left, and waits for one that is under way.
        Raises CatalogueError if the file cannot be had, is not the one the catalogue means, or
        is not a model.
        """
        entry = self.get(model)
        if version := self._installed(entry):
            return version
        try:
            with self._locked(entry.name, progress):
                return (
                    self._installed(entry)
                    or self._recognised(entry, progress)
                    or self._install(entry, progress)
                )
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise CatalogueError(f"{self._root}: the disk is full") from error
            raise CatalogueError(f"{entry.name} cannot be installed: {error}") from error

    def verify(self, model: str, progress: Progress = _silent) -> ModelVersion:
        """Hash the default version's file again. One that is not what was installed loses its
        manifest, so that the next pull fetches it."""
        entry = self.get(model)
        with self._locked(entry.name, progress):
            version = self._default(entry)
            if version is None:
                raise CatalogueError(f"{entry.name} is not installed")
            if not version.path.exists():
                fault = "is gone"
            elif _hash(version.path, progress) == version.sha256:
                return version
            else:
                fault = "is not what was installed"
            (self._folder_of(version) / MANIFEST).unlink()
        raise CatalogueError(f"{version.path} {fault}; headrace models pull {entry.name}")

    def _install(self, entry: ModelEntry, progress: Progress) -> ModelVersion:
        """From the first source that has it."""
        faults = []
        for source in entry.sources:
            try:
                return self._install_from(source, entry, progress)
            except CatalogueError as error:
                faults.append(str(error))
        raise CatalogueError("; ".join(faults))

    def _install_from(self, source: Source, entry: ModelEntry, progress: Progress) -> ModelVersion:
        partial = self._folder(entry.name) / "partial"
        fetched = fetch(source, partial, entry.size, progress)
        local = isinstance(source, LocalSource)
        try:
            if entry.sha256 not in (None, fetched.sha256):
                raise CatalogueError(
                    f"{source} is not what the catalogue means by {entry.name}: "
                    f"SHA-256 {fetched.sha256}, not {entry.sha256}"
                )
            formats, context_length = _describe(fetched.path)
        except CatalogueError:
            shutil.rmtree(partial, ignore_errors=True)  # to resume it would be to fail again
            raise
        short = fetched.sha256[:VERSION_DIGITS]
        folder = self._version_folder(entry.name, str(source), short)
        path = fetched.path if local else _move(fetched, folder)
        size, changed = state_of(path)
        version = ModelVersion(
            name=entry.name,
            version=short,
            sha256=fetched.sha256,
            path=path,
            size=size,
            mtime_ns=changed,
            source=str(source),
            licence=entry.licence,
            formats=formats,
            context_length=context_length,
            installed_at=time.time(),
        )
        write_version(folder, version)
        shutil.rmtree(partial, ignore_errors=True)
        return version

    def _recognised(self, entry: ModelEntry, progress: Progress) -> ModelVersion | None:
        """A version whose file only looks changed, as after a copy that lost its time."""
        version = self._default(entry)
        if version is None or not version.path.exists():
            return None
        try:
            size, changed = state_of(version.path)
        except (OSError, ModelFileError):
            return None
        if size != version.size or _hash(version.path, progress) != version.sha256:
            return None
        version = msgspec.structs.replace(version, mtime_ns=changed)
        write_version(self._folder_of(version), version)
        return version

    def _installed(self, entry: ModelEntry) -> ModelVersion | None:
        version = self._default(entry)
        return version if version and version.is_whole() else None

    def _default(self, entry: ModelEntry) -> ModelVersion | None:
        return next(filter(entry.is_met_by, reversed(self._versions(entry.name))), None)

    def _versions(self, name: str) -> list[ModelVersion]:
        if not _NAME.fullmatch(name):
            return []
        manifests = self._folder(name).glob(f"*/{MANIFEST}")
        found = [version for path in manifests if (version := read_version(path.parent))]
        return sorted(found, key=lambda version: version.installed_at)

    def _added(self, name: str) -> ModelEntry | None:
        if not _NAME.fullmatch(name):
            return None
        path = self._folder(name) / "entry.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=ModelEntry)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise CatalogueError(f"{path} cannot be read: {error}") from error

    def _folder(self, name: str) -> Path:
        return self._root / name

    def _folder_of(self, version: ModelVersion) -> Path:
        return self._version_folder(version.name, version.source, version.version)

    def _version_folder(self, name: str, source: str, version: str) -> Path:
        """A local source has one folder, so that a file that changes leaves no trail."""
        if isinstance(parse_source(source), LocalSource):
            version = f"local-{hashlib.sha256(source.encode()).hexdigest()[:VERSION_DIGITS]}"
        return self._folder(name) / version

    def _locked(self, name: str, progress: Progress) -> AbstractContextManager[None]:
        return locked(self._root / ".locks" / name, lambda: progress("waiting", 0, None))


def _safe_name(stem: str) -> str:
    """A name that a folder can have and a client can type."""
    name = re.sub(r"[^a-z0-9._-]+", "-", stem.lower()).strip("-._")[:100]
    return name or "model"


def _hash(path: Path, progress: Progress) -> str | None:
    """None where a file of a folder is missing."""
    try:
        return hash_model(path, progress)
    except (FileNotFoundError, ModelFileError):
        return None


def _describe(path: Path) -> tuple[tuple[str, ...], int | None]:
    """Formats and context length, read from what must be a GGUF file or a checkpoint's folder."""
    try:
        if path.is_dir():
            checkpoint = HuggingFaceCheckpoint(path)
            dtypes = sorted({tensor.type.name for tensor in checkpoint.tensors().values()})
            return ("safetensors", *dtypes), checkpoint.keys(None).longest()
        model = read_model(path)
    except ValueError as error:
        raise CatalogueError(str(error)) from error
    kinds = sorted({tensor.type.name for tensor in model.tensors.values()})
    length = model.metadata.get(f"{model.metadata.get('general.architecture')}.context_length")
    return ("GGUF", *kinds), length if isinstance(length, int) else None


def _move(fetched: Fetched, folder: Path) -> Path:
    """The model's file or files, or its folder, under the version's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    files = model_files(fetched.path)
    for file in files:
        with file.open("rb") as opened:
            sync(opened)
    if fetched.path.is_dir():
        path = folder / "checkpoint"
        if path.is_dir():
            shutil.rmtree(path)
        fetched.path.replace(path)
    elif files == [fetched.path]:
        path = fetched.path.replace(folder / "model.gguf")
    else:  # the parts of a split model keep their names
        path, *_ = [file.replace(folder / file.name) for file in files]
    sync_folder(folder)
    return path
