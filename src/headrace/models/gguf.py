"""Reading GGUF, the file format of llama.cpp's models: versions 2 and 3, little endian.

Layout (ggml's docs/gguf.md): magic, version, counts, key-values, tensor descriptions,
padding, tensor data. The file is mapped, not read, and everything it claims is held
against its size before anything is allocated or followed: a file is input, not a friend.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from pathlib import Path
from struct import Struct
from struct import error as StructError
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from headrace.models.errors import ModelFileError
from headrace.models.mapped import map_file, release_pages

VERSIONS = (2, 3)
MAX_DIMS = 4
MAX_KEY_BYTES = 65535
MAX_ARRAY_DEPTH = 3
MAX_STRINGS = 1 << 23
"""Strings in one array; each costs some fifty bytes more than it has in the file."""
DEFAULT_ALIGNMENT = 32

_U32 = Struct("<I")
_U64 = Struct("<Q")
_SCALARS: dict[int, np.dtype[np.generic]] = {
    code: np.dtype(name)
    for code, name in {
        0: "u1", 1: "i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4",
        10: "<u8", 11: "<i8", 12: "<f8",
    }.items()
}  # fmt: skip
_BOOL, _STRING, _ARRAY = 7, 8, 9
# The least bytes a key-value (one-byte key, one-byte value) and a tensor description take.
_MIN_KEY_VALUE = 8 + 1 + 4 + 1
_MIN_TENSOR = 8 + 1 + 4 + 8 + 4 + 8


@dataclass(frozen=True, slots=True)
class TensorType:
    """How a tensor's values are stored: `block` values in `size` bytes."""

    name: str
    block: int
    size: int


TENSOR_TYPES = {
    0: TensorType("F32", 1, 4),
    1: TensorType("F16", 1, 2),
    2: TensorType("Q4_0", 32, 18),
    3: TensorType("Q4_1", 32, 20),
    6: TensorType("Q5_0", 32, 22),
    7: TensorType("Q5_1", 32, 24),
    8: TensorType("Q8_0", 32, 34),
    12: TensorType("Q4_K", 256, 144),
    13: TensorType("Q5_K", 256, 176),
    14: TensorType("Q6_K", 256, 210),
    30: TensorType("BF16", 1, 2),
}
_REMOVED_TYPES = {4, 5, 31, 32, 33, 36, 37, 38}
_UNSUPPORTED_TYPES = {
    9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS",
    19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16",
    26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor's description. shape: as numpy has it, rows first; start: byte in the file."""

    name: str
    shape: tuple[int, ...]
    type: TensorType
    start: int
    size: int


class GgufFile:
    """A GGUF file that passed every check, mapped into memory.

    metadata: key -> bool, int, float, str, numpy array of numbers, or list (of strings or
    of arrays). tensors: name -> description, in the file's order.
    """

    def __init__(
        self,
        path: Path,
        mapped: mmap.mmap,
        metadata: Mapping[str, object],
        tensors: Mapping[str, Tensor],
    ) -> None:
        self.path = path
        self.metadata = metadata
        self.tensors = tensors
        self._mapped = mapped

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self._mapped)

    def raw(self, tensor: Tensor) -> NDArray[np.uint8]:
        """The tensor's bytes, uint8 [size]: a read-only view of the file."""
        return np.frombuffer(self._mapped, np.uint8, tensor.size, tensor.start)

    def release(self, tensor: Tensor) -> None:
        """Gives the tensor's pages back to the system. Whoever reads them again reads the file."""
        release_pages(self._mapped, tensor.start, tensor.size)


def read_gguf(path: Path) -> GgufFile:
    """Map the file and read all but its tensor data.

    Raises ModelFileError if it cannot be opened or anything in it is not as it should be.
    """
    mapped = map_file(path)
    try:
        return _Reader(path, mapped).read()
    except ModelFileError:
        mapped.close()
        raise


class _Description(NamedTuple):
    """A tensor as the header describes it; offset counts from the start of the data."""

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int


class _Reader:
    """A cursor over the header that cannot leave the file."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path = path
        self._data = data
        self._size = len(data)
        self._at = 0

    def read(self) -> GgufFile:
        tensor_count, key_count = self._read_counts()
        metadata: dict[str, object] = {}
        for _ in range(key_count):
            key = self._key("key", len(metadata))
            if key in metadata:
                self._refuse(f"key {key!r} occurs twice")
            metadata[key] = self._value(self._u32(f"type of key {key!r}"), key, depth=0)
        alignment = self._alignment(metadata)
        described = [self._describe(index) for index in range(tensor_count)]
        data_start = -(-self._at // alignment) * alignment
        tensors = self._locate(described, data_start, alignment)
        return GgufFile(self._path, self._data, metadata, tensors)

    def _refuse(self, fault: str) -> NoReturn:
        raise ModelFileError(self._path, fault)

    # The cursor

    def _skip(self, count: int, what: str) -> int:
        """Move on by `count` bytes; the place they start at."""
        start = self._at
        if count > self._size - start:
            self._refuse(
                f"truncated: {what} needs {count} bytes at byte {start},"
                f" the file has {self._size - start} left"
            )
        self._at = start + count
        return start

    def _u32(self, what: str) -> int:
        value: int = _U32.unpack_from(self._data, self._skip(4, what))[0]
        return value

    def _u64(self, what: str) -> int:
        value: int = _U64.unpack_from(self._data, self._skip(8, what))[0]
        return value

    def _string(self, what: str) -> str:
        length = self._u64(f"length of {what}")
        start = self._skip(length, what)
        try:
            return self._data[start : start + length].decode()
        except UnicodeDecodeError:
            self._refuse(f"{what} is not valid UTF-8")

    def _key(self, kind: str, index: int) -> str:
        what = f"{kind} {index}"
        length = self._u64(f"length of {what}")
        if not 1 <= length <= MAX_KEY_BYTES:
            self._refuse(f"{what} has a name of {length} bytes; 1 to {MAX_KEY_BYTES} are allowed")
        self._at -= 8
        return self._string(f"name of {what}")

    # Header

    def _read_counts(self) -> tuple[int, int]:
        magic = self._data[: self._skip(4, "the magic") + 4]
        if magic == b"vers":
            self._refuse("is a Git LFS pointer, not the model it points to; fetch the file itself")
        if magic != b"GGUF":
            self._refuse(f"is not a GGUF file: it starts with {magic!r}")
        version = self._u32("the version")
        if version in (2 << 24, 3 << 24):
            self._refuse("is a big-endian GGUF file; only little-endian ones are supported")
        if version not in VERSIONS:
            self._refuse(f"GGUF version {version} is not supported; 2 and 3 are")
        tensors, keys = self._u64("the number of tensors"), self._u64("the number of keys")
        left = self._size - self._at
        for count, what, least in (
            (keys, "keys", _MIN_KEY_VALUE),
            (tensors, "tensors", _MIN_TENSOR),
        ):
            if count * least > left:
                self._refuse(f"truncated: {count} {what} cannot fit in the {left} bytes left")
        return tensors, keys

    def _alignment(self, metadata: Mapping[str, object]) -> int:
        alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
        # A multiple of 8 by the specification; a power of two because every producer keeps it so.
        if type(alignment) is not int or alignment < 8 or alignment & (alignment - 1):
            self._refuse(f"general.alignment is {alignment!r}, not a power of two from 8 up")
        return alignment

    # Values

    def _value(self, kind: int, key: str, depth: int) -> object:
        if kind in _SCALARS:
            return self._numbers(_SCALARS[kind], 1, key)[0].item()
        if kind == _BOOL:
            return bool(self._bools(1, key)[0])
        if kind == _STRING:
            return self._string(f"value of key {key!r}")
        if kind == _ARRAY:
            return self._array(key, depth + 1)
        return self._refuse(f"key {key!r} has unknown value type {kind}")

    def _numbers(self, dtype: np.dtype[np.generic], count: int, key: str) -> NDArray[np.generic]:
        start = self._skip(count * dtype.itemsize, f"value of key {key!r}")
        # A copy: a view of a few numbers would keep the mapping from being closed.
        return np.frombuffer(self._data, dtype, count, start).copy()

    def _bools(self, count: int, key: str) -> NDArray[np.bool_]:
        values = self._numbers(np.dtype("u1"), count, key)
        if (values > np.uint8(1)).any():
            self._refuse(f"key {key!r} holds a bool that is neither 0 nor 1")
        return values.astype(np.bool_)

    def _array(self, key: str, depth: int) -> object:
        if depth > MAX_ARRAY_DEPTH:
            self._refuse(f"key {key!r} nests arrays more than {MAX_ARRAY_DEPTH} deep")
        kind = self._u32(f"item type of key {key!r}")
        count = self._u64(f"array length of key {key!r}")
        if kind in _SCALARS:
            return self._numbers(_SCALARS[kind], count, key)
        if kind == _BOOL:
            return self._bools(count, key)
        if kind == _STRING:
            return self._strings(count, key)
        if kind == _ARRAY:
            self._check_items(count, 12, key)
            return [self._array(key, depth + 1) for _ in range(count)]
        return self._refuse(f"key {key!r} is an array of unknown type {kind}")

    def _check_items(self, count: int, least: int, key: str) -> None:
        left = self._size - self._at
        if count * least > left:
            self._refuse(
                f"truncated: key {key!r} claims an array of {count} items,"
                f" which cannot fit in the {left} bytes left"
            )
        if count > MAX_STRINGS:
            self._refuse(f"key {key!r} holds {count} items; at most {MAX_STRINGS} are accepted")

    def _strings(self, count: int, key: str) -> list[str]:
        """A vocabulary has hundreds of thousands of strings, so this loop is kept tight."""
        self._check_items(count, 8, key)
        data, size, at = self._data, self._size, self._at
        unpack = _U64.unpack_from
        strings: list[str] = []
        append = strings.append
        try:
            for _ in range(count):
                start = at + 8
                at = start + unpack(data, at)[0]
                if at > size:
                    break
                append(str(data[start:at], "utf-8"))
        except UnicodeDecodeError:
            self._refuse(f"item {len(strings)} of key {key!r} is not valid UTF-8")
        except StructError:  # fewer than 8 bytes left for a length
            at = size + 1
        if at > size:
            self._refuse(f"truncated: item {len(strings)} of key {key!r} runs past the file's end")
        self._at = at
        return strings

    # Tensors

    def _describe(self, index: int) -> _Description:
        name = self._key("tensor", index)
        dims = self._u32(f"dimensions of tensor {name!r}")
        if not 1 <= dims <= MAX_DIMS:
            self._refuse(f"tensor {name!r} has {dims} dimensions; 1 to {MAX_DIMS} are allowed")
        # GGUF names the fastest dimension first, numpy last.
        shape = tuple(self._u64(f"shape of tensor {name!r}") for _ in range(dims))[::-1]
        kind = self._u32(f"type of tensor {name!r}")
        return _Description(name, shape, kind, self._u64(f"offset of tensor {name!r}"))

    def _locate(
        self, described: list[_Description], data_start: int, alignment: int
    ) -> dict[str, Tensor]:
        tensors: dict[str, Tensor] = {}
        for name, shape, kind, offset in described:
            if name in tensors:
                self._refuse(f"tensor {name!r} occurs twice")
            if offset % alignment:
                self._refuse(
                    f"tensor {name!r} is at offset {offset}, not a multiple of {alignment}"
                )
            tensor_type = self._tensor_type(name, kind)
            start, size = data_start + offset, self._tensor_size(name, shape, tensor_type)
            if start + size > self._size:
                self._refuse(
                    f"truncated: tensor {name!r} ends at byte {start + size},"
                    f" the file has {self._size}"
                )
            tensors[name] = Tensor(name, shape, tensor_type, start, size)
        in_order = sorted(tensors.values(), key=lambda tensor: tensor.start)
        for before, after in pairwise(in_order):
            if before.start + before.size > after.start:
                self._refuse(f"tensors {before.name!r} and {after.name!r} overlap")
        return tensors

    def _tensor_type(self, name: str, kind: int) -> TensorType:
        if kind in TENSOR_TYPES:
            return TENSOR_TYPES[kind]
        if kind in _REMOVED_TYPES:
            self._refuse(f"tensor {name!r} has type {kind}, which was removed from GGUF")
        if kind in _UNSUPPORTED_TYPES:
            self._refuse(
                f"tensor {name!r} has type {_UNSUPPORTED_TYPES[kind]} ({kind}), which is not"
                f" supported; {', '.join(known.name for known in TENSOR_TYPES.values())} are"
            )
        return self._refuse(f"tensor {name!r} has unknown type {kind}")

    def _tensor_size(self, name: str, shape: tuple[int, ...], tensor_type: TensorType) -> int:
        """Bytes of the tensor; Python's integers cannot overflow on the way."""
        if 0 in shape:
            self._refuse(f"tensor {name!r} has a dimension of size 0: {shape}")
        if shape[-1] % tensor_type.block:
            self._refuse(
                f"tensor {name!r} has rows of {shape[-1]} values, which {tensor_type.name}'s"
                f" blocks of {tensor_type.block} do not divide"
            )
        return prod(shape) // tensor_type.block * tensor_type.size
