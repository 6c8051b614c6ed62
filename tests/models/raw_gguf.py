"""GGUF files byte by byte, so that tests can write what no library would."""

from __future__ import annotations

import struct
from collections.abc import Sequence

U32, F32, BOOL, STRING, ARRAY = 4, 6, 7, 8, 9
Q8_0 = 8


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return u64(len(data)) + data


def key_value(key: str | bytes, kind: int, value: bytes) -> bytes:
    return text(key) + u32(kind) + value


def array(kind: int, items: Sequence[bytes], *, length: int | None = None) -> bytes:
    """The value of an ARRAY key; `length` lets it claim more items than it has."""
    return u32(kind) + u64(len(items) if length is None else length) + b"".join(items)


def tensor(
    name: str | bytes,
    dims: Sequence[int],
    kind: int = 0,
    offset: int = 0,
    *,
    rank: int | None = None,
) -> bytes:
    """A description; dims as GGUF orders them, the row's length first."""
    rank = len(dims) if rank is None else rank
    return text(name) + u32(rank) + b"".join(map(u64, dims)) + u32(kind) + u64(offset)


def gguf_bytes(
    keys: Sequence[bytes] = (),
    tensors: Sequence[bytes] = (),
    data: bytes = b"",
    *,
    version: int = 3,
    key_count: int | None = None,
    tensor_count: int | None = None,
    alignment: int = 32,
) -> bytes:
    """A whole file; the counts can be made to lie."""
    header = b"GGUF" + u32(version)
    header += u64(len(tensors) if tensor_count is None else tensor_count)
    header += u64(len(keys) if key_count is None else key_count)
    header += b"".join(keys) + b"".join(tensors)
    return header + bytes(-len(header) % alignment) + data
