"""GGUF models that are split over several files, as llama.cpp's gguf-split writes them.

The files are called NAME-00001-of-00003.gguf and so on. The first holds the metadata; each tells
its number, how many there are, and how many tensors they hold together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headrace.models.errors import ModelFileError
from headrace.models.gguf import GgufFile, Tensor, read_gguf

MAX_PARTS = 10_000
PADDING = 1 << 16
"""Bytes: more than any alignment leaves behind the last tensor."""

_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
_NUMBER, _COUNT, _TENSORS = "split.no", "split.count", "split.tensors.count"


@dataclass(frozen=True, slots=True)
class GgufModel:
    """All files of a model.

    metadata: the first one's. tensors: name -> description in its own file; files: name -> that
    file.
    """

    metadata: Mapping[str, object]
    tensors: Mapping[str, Tensor]
    files: Mapping[str, GgufFile]


def part_names(name: str) -> list[str]:
    """The names of all parts of a split model, by that of one; else the name itself."""
    match = _NAME.fullmatch(name)
    count = int(match["count"]) if match else 1
    if match is None or not 1 < count <= MAX_PARTS or not 1 <= int(match["number"]) <= count:
        return [name]
    return [f"{match['stem']}-{part:05d}-of-{count:05d}.gguf" for part in range(1, count + 1)]


def part_paths(path: Path) -> list[Path]:
    """The files of a model by one of them, the first one first, whether or not they are there."""
    return [path.with_name(name) for name in part_names(path.name)]


def stem_of(name: str) -> str:
    """A file's name without the ending, and without a part's number."""
    match = _NAME.fullmatch(name)
    return match["stem"] if match else name.removesuffix(".gguf")


def read_model(path: Path) -> GgufModel:
    """Map a GGUF file, or all files of a split model of which it is any one.

    Raises ModelFileError, naming the file, if one is missing, belongs to another model, or is
    faulty in itself.
    """
    paths = part_paths(path)
    files: list[GgufFile] = []
    for number, part in enumerate(paths, 1):
        if len(paths) > 1 and not part.is_file():
            raise ModelFileError(part, f"is missing: part {number} of {len(paths)} of the model")
        file = read_gguf(part)
        _check_part(file, number, len(paths))
        files.append(file)
    first = files[0]
    tensors: dict[str, Tensor] = {}
    holders: dict[str, GgufFile] = {}
    for file in files[1:]:
        _check_same(first, file)
    for file in files:
        for name, tensor in file.tensors.items():
            if name in holders:
                raise ModelFileError(
                    file.path, f"tensor {name!r} is in {holders[name].path.name} already"
                )
            tensors[name], holders[name] = tensor, file
    _check_count(files, len(tensors))
    return GgufModel(first.metadata, tensors, holders)


def _check_part(file: GgufFile, number: int, count: int) -> None:
    """Raises ModelFileError unless the file says of itself what its name says."""
    stated = _integer(file, _COUNT, 1)
    if stated in (0, 1) and count == 1:
        return
    own = _integer(file, _NUMBER, 0) + 1
    if (own, stated) != (number, count):
        says = f"says that it is part {own} of {stated}" if stated > 1 else "says that it is whole"
        meant = f"part {number} of {count}" if count > 1 else "a whole model"
        raise ModelFileError(
            file.path,
            f"{says}, and its name that it is {meant}; the files of a split model keep the names"
            " NAME-00001-of-00003.gguf and so on, in one folder, and are not joined",
        )
    end = max((tensor.start + tensor.size for tensor in file.tensors.values()), default=0)
    if file.tensors and file.size - end >= PADDING:
        raise ModelFileError(
            file.path,
            f"holds {file.size - end} bytes behind its last tensor; the files of a split model are"
            " not joined",
        )


def _check_same(first: GgufFile, other: GgufFile) -> None:
    """Raises ModelFileError if two parts say that they are of different models."""
    for key in first.metadata.keys() & other.metadata.keys():
        if key != _NUMBER and not _equal(first.metadata[key], other.metadata[key]):
            raise ModelFileError(
                other.path,
                f"belongs to another model than {first.path.name}: key {key!r} is"
                f" {str(other.metadata[key])[:80]}, not {str(first.metadata[key])[:80]}",
            )


def _equal(one: object, other: object) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(np.asarray(one), np.asarray(other))
    return one == other


def _check_count(files: Sequence[GgufFile], found: int) -> None:
    for file in files:
        stated = _integer(file, _TENSORS, found)
        if stated != found:
            raise ModelFileError(
                file.path, f"key {_TENSORS!r} is {stated}, but there are {found} tensors"
            )


def _integer(file: GgufFile, key: str, default: int) -> int:
    value = file.metadata.get(key, default)
    if type(value) is not int or value < 0:
        raise ModelFileError(file.path, f"key {key!r} is {value!r}, not a number of 0 or more")
    return value
