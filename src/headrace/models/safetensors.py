"""Reading safetensors files, their header checked before any of it is followed.

Layout (huggingface/safetensors): the header's length as a little-endian uint64, the header
as a JSON object of tensor name -> dtype, shape, data_offsets, then the data, which the
tensors must cover without overlap, hole or rest. Dense tensors only: float32, float16 and
bfloat16 can be read; others may be present.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import NoReturn

import numpy as np

from headrace.models.errors import ModelFileError
from headrace.models.formats import decode
from headrace.models.gguf import TENSOR_TYPES, Tensor
from headrace.models.mapped import map_file, release_pages
from headrace.ops.weights import Weight

MAX_HEADER = 100_000_000
"""Bytes; the limit the format's own library sets."""

MAX_DIMS = 8

SAMPLES, SAMPLE_BYTES = 1024, 512
"""Of a tensor that is only compared to another."""

_ITEM_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "U16": 2, "I16": 2,
    "F16": 2, "BF16": 2, "U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8,
}  # fmt: skip
_READABLE = {kind.name: kind for kind in TENSOR_TYPES.values() if kind.name in _ITEM_BYTES}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """shape: rows first. start: byte in the file. size: bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    size: int


class SafetensorsFile:
    """A safetensors file that passed every check, mapped into memory; a WeightSource.

    tensors: name -> description, in the order of their data. metadata: the file's own
    text pairs.
    """

    def __init__(
        self,
        path: Path,
        mapped: mmap.mmap,
        tensors: Mapping[str, StoredTensor],
        metadata: Mapping[str, str],
    ) -> None:
        self.path = path
        self.tensors = tensors
        self.metadata = metadata
        self._mapped = mapped

    def load(self, name: str) -> Weight:
        """A DenseWeight. KeyError if the file has no such tensor, ModelFileError if its type
        cannot be read or a value is not finite."""
        return self.weight(self.describe(name))

    def describe(self, name: str) -> Tensor:
        """The tensor as programs' weights are described. KeyError if the file has none of that
        name, ModelFileError if its type cannot be read."""
        tensor = self.tensors[name]
        if tensor.dtype not in _READABLE:
            raise ModelFileError(
                self.path,
                f"tensor {name!r} is {tensor.dtype}; only {', '.join(_READABLE)} can be read",
            )
        return Tensor(name, tensor.shape, _READABLE[tensor.dtype], tensor.start, tensor.size)

    def weight(self, tensor: Tensor) -> Weight:
        """What the file holds where the description says. Raises ModelFileError if a value is
        not finite."""
        try:
            raw = np.frombuffer(self._mapped, np.uint8, tensor.size, tensor.start)
            if tensor.start % 4:  # the format promises no alignment, numpy and kernels want it
                raw = raw.copy()
            return decode(tensor.type, tensor.shape, raw)
        except ValueError as error:
            raise ModelFileError(self.path, f"tensor {tensor.name!r} {error}") from error

    def sample(self, tensor: Tensor) -> bytes:
        """Some of the tensor's bytes: the beginnings of parts of equal size."""
        step = max(tensor.size // SAMPLES, SAMPLE_BYTES)
        starts = range(tensor.start, tensor.start + tensor.size, step)
        end = tensor.start + tensor.size
        return b"".join(self._mapped[at : min(at + SAMPLE_BYTES, end)] for at in starts)

    def release(self, tensor: Tensor) -> None:
        """Gives the tensor's pages back to the system. Whoever reads them again reads the file."""
        release_pages(self._mapped, tensor.start, tensor.size)


def read_safetensors(path: Path) -> SafetensorsFile:
    """Map the file and check its whole header.

    Raises ModelFileError if it cannot be opened or anything in it is not as it should be.
    """
    mapped = map_file(path)
    try:
        return _read(path, mapped)
    except ValueError as error:
        mapped.close()
        raise ModelFileError(path, str(error)) from error


def _read(path: Path, mapped: mmap.mmap) -> SafetensorsFile:
    if len(mapped) < 8:
        raise ValueError(f"truncated: {len(mapped)} bytes cannot hold a header's length")
    length = int.from_bytes(mapped[:8], "little")
    if length > len(mapped) - 8:
        raise ValueError(
            f"truncated: the header claims {length} bytes, the file has {len(mapped) - 8} left"
        )
    if length > MAX_HEADER:
        raise ValueError(f"the header has {length} bytes; at most {MAX_HEADER} are accepted")
    header = _parse(mapped[8 : 8 + length])
    metadata = _metadata(header.pop("__metadata__", {}))
    tensors = [_describe(name, entry, 8 + length) for name, entry in header.items()]
    tensors.sort(key=lambda tensor: (tensor.start, tensor.size))
    _check_cover(tensors, 8 + length, len(mapped))
    return SafetensorsFile(path, mapped, {tensor.name: tensor for tensor in tensors}, metadata)


def _parse(text: bytes) -> dict[str, object]:
    try:
        header = json.loads(
            text.decode(), object_pairs_hook=_unique, parse_constant=_refuse_constant
        )
    except RecursionError:
        raise ValueError("the header is nested too deeply") from None
    except ValueError as error:  # not UTF-8, not JSON, or refused by the hooks
        raise ValueError(f"the header is not valid JSON: {error}") from error
    if not isinstance(header, dict):
        raise ValueError("the header is not a JSON object")
    return header


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} occurs twice")
        found[name] = value
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _metadata(entry: object) -> dict[str, str]:
    if not isinstance(entry, dict):
        raise ValueError("'__metadata__' is not a JSON object")
    for key, value in entry.items():
        if not isinstance(value, str):
            raise ValueError(f"'__metadata__' key {key!r} is not a string")
    return entry


def _describe(name: str, entry: object, data_start: int) -> StoredTensor:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"tensor {name!r} must have exactly dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _ITEM_BYTES:
        raise ValueError(f"tensor {name!r} has unknown dtype {dtype!r}")
    if not _counts(shape) or len(shape) > MAX_DIMS:
        raise ValueError(
            f"tensor {name!r} has shape {shape!r}, not a list of at most {MAX_DIMS} sizes"
        )
    if not _counts(offsets) or len(offsets) != 2:
        raise ValueError(f"tensor {name!r} has data_offsets {offsets!r}, not a begin and an end")
    begin, end = offsets
    if begin > end:
        raise ValueError(f"tensor {name!r} begins at {begin}, after its end {end}")
    needed = prod(shape) * _ITEM_BYTES[dtype]
    if end - begin != needed:
        raise ValueError(
            f"tensor {name!r} of shape {tuple(shape)} and {dtype} needs {needed} bytes,"
            f" its data_offsets give {end - begin}"
        )
    return StoredTensor(name, dtype, tuple(shape), data_start + begin, end - begin)


def _counts(value: object) -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _check_cover(tensors: list[StoredTensor], data_start: int, file_size: int) -> None:
    """The tensors, in order of their data, must fill the file to its last byte."""
    at = data_start
    for tensor in tensors:
        if tensor.start < at:
            raise ValueError(f"tensor {tensor.name!r} overlaps the one before it")
        if tensor.start > at:
            raise ValueError(
                f"a hole of {tensor.start - at} bytes lies before tensor {tensor.name!r}"
            )
        at += tensor.size
        if at > file_size:
            raise ValueError(
                f"truncated: tensor {tensor.name!r} ends at byte {at}, the file has {file_size}"
            )
    if at != file_size:
        raise ValueError(f"{file_size - at} bytes follow the last tensor")
