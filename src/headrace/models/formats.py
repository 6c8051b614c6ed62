"""GGUF's block formats as the affine groups that backends compute with.

Each format is defined by ggml (ggml-common.h, ggml-quants.c). The conversion is exact: a
code, its scale and its minimum are what the format stores, and every product of scales is
exact in float32, so `GroupedWeight.dequantise()` equals ggml's own result.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from headrace.models.gguf import Tensor, TensorType
from headrace.ops.weights import DenseWeight, GroupedWeight, Multiples, Weight

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


def decode(tensor_type: TensorType, shape: tuple[int, ...], raw: Bytes) -> Weight:
    """The weight stored in `raw`, uint8 [bytes of the tensor].

    A float32 tensor is a view of `raw`, everything else a copy. Quantised tensors have two
    dimensions. Raises ValueError on others and on values or scales that are not finite.
    """
    if tensor_type.name in _DENSE:
        values = _DENSE[tensor_type.name](raw).reshape(shape)
        _check_finite(values)
        return DenseWeight(values)
    if len(shape) != 2:
        raise ValueError(f"is {tensor_type.name} of shape {shape}; only matrices are quantised")
    n, k = shape
    blocks = raw.reshape(n, k // tensor_type.block, tensor_type.size)
    weight = _QUANTISED[tensor_type.name](blocks)
    for numbers in (weight.scale, weight.minimum):
        if isinstance(numbers, Multiples):
            _check_finite(numbers.unit)
        elif numbers is not None:
            _check_finite(numbers)
    return weight


def packed_bytes(tensor: Tensor) -> int:
    """The most memory the tensor takes as the CPU's kernels read it; vectors stay float32."""
    if len(tensor.shape) == 1:
        return 4 * tensor.shape[0]
    n, k = tensor.shape
    return round(_PACKED[tensor.type.name] * _padded(n) * _padded(k))


def decoding_bytes(tensor: Tensor) -> int:
    """The most memory that `decode` takes: the file's bytes, what comes of them, and what lies
    between."""
    count = 1
    for size in tensor.shape:
        count *= size
    return tensor.size + _DECODED[tensor.type.name] * count


def _padded(size: int) -> int:
    return -(-size // 32) * 32


def _check_finite(values: Floats | NDArray[np.float16]) -> None:
    if not np.isfinite(values).all():
        raise ValueError("holds values that are not finite")


def _f32(raw: Bytes) -> Floats:
    return raw.view("<f4")


def _f16(raw: Bytes) -> Floats:
    return raw.view("<f2").astype(np.float32)


def _bf16(raw: Bytes) -> Floats:
    bits = raw.view("<u2").astype(np.uint32)
    bits <<= np.uint32(16)
    return bits.view(np.float32)


_DENSE: dict[str, Callable[[Bytes], Floats]] = {"F32": _f32, "F16": _f16, "BF16": _bf16}


# Below, blocks are uint8 [n, blocks of a row, bytes of a block].


def _half(blocks: Bytes, at: int) -> NDArray[np.float16]:
    """The float16 at byte `at` of each block: [n, blocks]."""
    field: NDArray[np.float16] = np.ascontiguousarray(blocks[..., at : at + 2]).view("<f2")[..., 0]
    return field


def _float(blocks: Bytes, at: int) -> Floats:
    """The same in float32."""
    return _half(blocks, at).astype(np.float32)


def _rows(codes: Bytes) -> Bytes:
    """[n, blocks, ...] -> [n, k]."""
    return codes.reshape(len(codes), -1)


def _nibbles(packed: Bytes) -> Bytes:
    """[..., b] -> [..., 2 b]: the low halves, then the high halves."""
    half = packed.shape[-1]
    codes = np.empty((*packed.shape[:-1], 2 * half), np.uint8)
    np.bitwise_and(packed, 15, out=codes[..., :half])
    np.right_shift(packed, 4, out=codes[..., half:])
    return codes


def _words(values: Bytes) -> NDArray[np.uint64]:
    """[..., b] -> [..., b / 8]: bit operations on eight bytes at once."""
    return np.ascontiguousarray(values).view(np.uint64)


_EACH_BYTE_1 = np.uint64(0x0101010101010101)
_EACH_BYTE_3 = np.uint64(0x0303030303030303)
# byte -> eight bytes, bit j of it at bit 4 of byte j
_SPREAD = (
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=-1, bitorder="little") << 4
).view(np.uint64)[:, 0]


def _add_fifth_bits(codes: Bytes, bits: Bytes) -> Bytes:
    """Bit j of the 32 `bits`, uint8 [n, blocks, 4], becomes bit 4 of code j."""
    words = _words(codes)
    words |= _SPREAD[bits]
    return words.view(np.uint8)


def _q4_0(blocks: Bytes) -> GroupedWeight:
    return GroupedWeight(4, 32, _rows(_nibbles(blocks[..., 2:])), _float(blocks, 0), zero=8)


def _q4_1(blocks: Bytes) -> GroupedWeight:
    codes = _nibbles(blocks[..., 4:])
    return GroupedWeight(4, 32, _rows(codes), _float(blocks, 0), _float(blocks, 2))


def _q5_0(blocks: Bytes) -> GroupedWeight:
    codes = _add_fifth_bits(_nibbles(blocks[..., 6:]), blocks[..., 2:6])
    return GroupedWeight(5, 32, _rows(codes), _float(blocks, 0), zero=16)


def _q5_1(blocks: Bytes) -> GroupedWeight:
    codes = _add_fifth_bits(_nibbles(blocks[..., 8:]), blocks[..., 4:8])
    return GroupedWeight(5, 32, _rows(codes), _float(blocks, 0), _float(blocks, 2))


def _q8_0(blocks: Bytes) -> GroupedWeight:
    # Flipping the sign bit adds 128 to a two's complement byte.
    codes = blocks[..., 2:] ^ np.uint8(0x80)
    return GroupedWeight(8, 32, _rows(codes), _float(blocks, 0), zero=128)


def _bits(words: NDArray[np.uint32], start: int, count: int) -> NDArray[np.uint32]:
    """`count` bits from bit `start` up, of each of a word's four bytes."""
    mask = np.uint32(0x01010101 * ((1 << count) - 1))
    return words >> np.uint32(start) & mask


def _bytes(first: NDArray[np.uint32], second: NDArray[np.uint32]) -> Bytes:
    """[...] and [...] -> [..., 8]: the bytes of both."""
    return np.stack((first, second), axis=-1).view(np.uint8)


def _k_numbers(blocks: Bytes) -> tuple[Multiples, Multiples]:
    """Scale and minimum of Q4_K's and Q5_K's eight sub-blocks.

    Twelve bytes hold 6-bit pairs: four plain ones, whose spare two bits complete the others.
    """
    packed = np.ascontiguousarray(blocks[..., 4:16]).view(np.uint32)
    low, middle, high = packed[..., 0], packed[..., 1], packed[..., 2]
    four = np.uint32(4)
    scales = _bytes(_bits(low, 0, 6), _bits(high, 0, 4) | _bits(low, 6, 2) << four)
    minima = _bytes(_bits(middle, 0, 6), _bits(high, 4, 4) | _bits(middle, 6, 2) << four)
    return (
        Multiples(_half(blocks, 0), _rows(scales).view(np.int8)),
        Multiples(-_half(blocks, 2), _rows(minima).view(np.int8)),
    )


def _q4_k(blocks: Bytes) -> GroupedWeight:
    codes = _nibbles(blocks[..., 16:].reshape(*blocks.shape[:2], 4, 32))
    return GroupedWeight(4, 32, _rows(codes), *_k_numbers(blocks))


def _q5_k(blocks: Bytes) -> GroupedWeight:
    codes = _nibbles(blocks[..., 48:].reshape(*blocks.shape[:2], 4, 32))
    words = codes.view(np.uint64).reshape(*blocks.shape[:2], 8, 4)
    high = _words(blocks[..., 16:48])
    for sub_block in range(8):
        words[..., sub_block, :] |= (high >> sub_block & _EACH_BYTE_1) << 4
    return GroupedWeight(5, 32, _rows(codes), *_k_numbers(blocks))


def _q6_k(blocks: Bytes) -> GroupedWeight:
    codes = _nibbles(blocks[..., :128].reshape(*blocks.shape[:2], 2, 64))
    words = codes.view(np.uint64)
    high = _words(blocks[..., 128:192]).reshape(*blocks.shape[:2], 2, 4)
    for quarter in range(4):
        words[..., 4 * quarter : 4 * quarter + 4] |= (high >> 2 * quarter & _EACH_BYTE_3) << 4
    scale = Multiples(_half(blocks, 208), _rows(blocks[..., 192:208]).view(np.int8))
    return GroupedWeight(6, 16, _rows(codes), scale, zero=32)


_QUANTISED: dict[str, Callable[[Bytes], GroupedWeight]] = {
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
    "Q6_K": _q6_k,
}

# Bytes a weight. Packed: codes and, for each group, a scale and maybe a minimum: float16, or a
# byte and a float16 every 256 columns.
# W8 and W4 are made from floats (`models.quantisation`), and take these while they are decoded.
_PACKED: dict[str, float] = {
    "Q4_0": 4 / 8 + 2 / 32,
    "Q4_1": 4 / 8 + 4 / 32,
    "Q5_0": 5 / 8 + 2 / 32,
    "Q5_1": 5 / 8 + 4 / 32,
    "Q8_0": 8 / 8 + 2 / 32,
    "Q4_K": 4 / 8 + 2 / 32 + 4 / 256,
    "Q5_K": 5 / 8 + 2 / 32 + 4 / 256,
    "Q6_K": 6 / 8 + 1 / 16 + 2 / 256,
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "W8": 8 / 8 + 2 / 32,
    "W4": 4 / 8 + 4 / 32,
}
_DECODED: dict[str, int] = {
    **dict.fromkeys(("Q4_0", "Q4_1", "Q8_0"), 2),
    **dict.fromkeys(("Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"), 3),
    "F32": 1,
    "F16": 5,
    "BF16": 5,
    "W8": 7,
    "W4": 7,
}
