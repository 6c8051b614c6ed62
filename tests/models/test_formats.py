"""Block formats against the `gguf` package's own dequantisation, on arbitrary bytes."""

from __future__ import annotations

import tracemalloc

import gguf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.models.formats import decode, decoding_bytes, packed_bytes
from headrace.models.gguf import TENSOR_TYPES, Tensor, TensorType
from headrace.ops import _native
from headrace.ops.cpu import pack
from headrace.ops.weights import DenseWeight, GroupedWeight, Multiples

EXPECTED_GROUPS = {
    "Q4_0": (4, 32),
    "Q4_1": (4, 32),
    "Q4_K": (4, 32),
    "Q5_0": (5, 32),
    "Q5_1": (5, 32),
    "Q5_K": (5, 32),
    "Q8_0": (8, 32),
    "Q6_K": (6, 16),
}
# Where a block holds its float16 scales.
HALVES = {
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q4_K": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q5_K": (0, 2),
    "Q8_0": (0,),
    "Q6_K": (208,),
}
BY_NAME = {tensor_type.name: tensor_type for tensor_type in TENSOR_TYPES.values()}
finite_halves = st.floats(width=16, allow_nan=False, allow_infinity=False)


def blocks(tensor_type: TensorType, rows: int, columns: int, seed: int) -> np.ndarray:
    """Random blocks uint8 [rows, columns, size] whose scales are plain numbers."""
    random = np.random.default_rng(seed)
    raw = random.integers(0, 256, (rows, columns, tensor_type.size), dtype=np.uint8)
    for at in HALVES[tensor_type.name]:
        halves = random.normal(size=(rows, columns, 1)).astype("<f2")
        raw[..., at : at + 2] = halves.view(np.uint8)
    return raw


@pytest.mark.parametrize("name", EXPECTED_GROUPS)
@given(
    rows=st.integers(1, 5),
    columns=st.integers(1, 3),
    seed=st.integers(0, 2**32),
    scales=st.lists(finite_halves, min_size=2, max_size=2),
)
def test_every_format_equals_its_definition(
    name: str, rows: int, columns: int, seed: int, scales: list[float]
) -> None:
    tensor_type = BY_NAME[name]
    raw = blocks(tensor_type, rows, columns, seed)
    for at, scale in zip(HALVES[name], scales, strict=False):
        raw[0, 0, at : at + 2] = np.array([scale], "<f2").view(np.uint8)

    weight = decode(tensor_type, (rows, columns * tensor_type.block), raw.ravel())

    assert isinstance(weight, GroupedWeight)
    assert (weight.bits, weight.group) == EXPECTED_GROUPS[name]
    assert weight.codes.dtype == np.uint8
    assert weight.codes.max() < 2**weight.bits
    assert isinstance(weight.scale, Multiples) == name.endswith("_K")
    assert (weight.minimum is not None) == (len(HALVES[name]) == 2)
    expected = gguf.dequantize(raw.reshape(rows, -1), gguf.GGMLQuantizationType[name])
    np.testing.assert_array_equal(weight.dequantise(), expected)


@pytest.mark.parametrize("name", ["F32", "F16", "BF16"])
def test_dense_formats_keep_every_value(name: str) -> None:
    values = np.random.default_rng(7).normal(size=(3, 64)).astype(np.float32)
    kind = gguf.GGMLQuantizationType[name]
    raw = gguf.quantize(values, kind).view(np.uint8).ravel()

    weight = decode(BY_NAME[name], (3, 64), raw)

    assert isinstance(weight, DenseWeight)
    assert weight.values.dtype == np.float32
    np.testing.assert_array_equal(weight.values, gguf.dequantize(raw.reshape(3, -1), kind))


@pytest.mark.parametrize("name", EXPECTED_GROUPS)
@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_scales_that_are_not_finite_are_refused(name: str, broken: float) -> None:
    raw = blocks(BY_NAME[name], 2, 2, seed=1)
    raw[1, 0, HALVES[name][-1] :][:2] = np.array([broken], "<f2").view(np.uint8)
    with pytest.raises(ValueError, match="not finite"):
        decode(BY_NAME[name], (2, 2 * BY_NAME[name].block), raw.ravel())


def test_dense_values_that_are_not_finite_are_refused() -> None:
    raw = np.array([1.0, np.nan], np.float32).view(np.uint8)
    with pytest.raises(ValueError, match="not finite"):
        decode(BY_NAME["F32"], (2,), raw)


def test_a_quantised_vector_is_refused() -> None:
    raw = blocks(BY_NAME["Q8_0"], 1, 1, seed=1).ravel()
    with pytest.raises(ValueError, match="only matrices"):
        decode(BY_NAME["Q8_0"], (32,), raw)


@pytest.mark.parametrize("name", BY_NAME)
def test_the_memory_a_tensor_takes_is_no_more_than_stated(name: str) -> None:
    tensor_type, n, k = BY_NAME[name], 512, 2048
    if name in EXPECTED_GROUPS:
        raw = blocks(tensor_type, n, k // tensor_type.block, 0).ravel()
    else:
        values = np.random.default_rng(0).normal(size=(n, k)).astype(np.float32)
        raw = gguf.quantize(values, gguf.GGMLQuantizationType[name]).view(np.uint8).ravel()
    tensor = Tensor("t", (n, k), tensor_type, 0, raw.nbytes)

    tracemalloc.start()
    weight = decode(tensor_type, (n, k), raw)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak + raw.nbytes <= decoding_bytes(tensor) + (1 << 16)

    matrix = pack(_native.Machine("scalar", 1), weight)
    assert 0.85 * packed_bytes(tensor) <= matrix.bytes <= packed_bytes(tensor)
