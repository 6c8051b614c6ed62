"""Float matrices quantised at load: what the codes lose, and what is refused."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from bench.accuracy import load, logits_of
from gguf import GGMLQuantizationType
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from headrace.models import quantisation
from headrace.models.errors import ModelFileError
from headrace.models.formats import decode, decoding_bytes, packed_bytes
from headrace.models.gguf import TENSOR_TYPES, Tensor
from headrace.models.model import open_model
from headrace.models.quantisation import QUANTISE, Quantised, describe, to_w4, to_w8
from headrace.ops import _native
from headrace.ops.checks import required_weights
from headrace.ops.cpu import CpuBackend, pack
from headrace.ops.weights import DenseWeight, GroupedWeight, Weight, values_of
from tests.models.families import FAMILIES
from tests.models.huggingface import export
from tests.models.tiny import LAYERS, WIDTH, write_tiny

Matrix = np.ndarray

# Up to what float16 can scale, and down to where its numbers have no more leading bits.
finite = st.floats(-60000, 60000, width=32)
small = st.floats(-1, 1, width=32)
matrices = st.one_of(
    arrays(np.float32, st.tuples(st.integers(1, 4), st.sampled_from([32, 64])), elements=numbers)
    for numbers in (finite, small)
)


def groups(matrix: Matrix) -> Matrix:
    """[n, k] -> [n, k / 32, 32]"""
    return matrix.reshape(len(matrix), -1, 32)


def error(weight: GroupedWeight, matrix: Matrix) -> Matrix:
    """float64 [n, k / 32]: each group's squared error."""
    rest = groups(weight.dequantise()).astype(np.float64) - groups(matrix)
    return np.square(rest).sum(axis=2)


@given(matrix=matrices)
def test_w8_is_within_half_a_step(matrix: Matrix) -> None:
    weight = to_w8(matrix)
    assert (weight.bits, weight.zero, weight.minimum) == (8, 128, None)
    step = np.abs(groups(matrix)).max(axis=2, keepdims=True) / 127
    # The scale is rounded to 11 bits, and the greatest code is 127 of it.
    bound = step / 2 + 127 * (step * 2.0**-11 + 2.0**-25)
    assert (np.abs(groups(weight.dequantise() - matrix)) <= bound * 1.0001).all()


@given(matrix=matrices)
def test_w4_is_no_worse_than_its_range_cut_into_equal_steps(matrix: Matrix) -> None:
    weight = to_w4(matrix)
    assert weight.bits == 4
    assert weight.minimum is not None
    assert weight.codes.max() <= 15
    grouped = groups(matrix).astype(np.float64)
    least, most = grouped.min(axis=2), grouped.max(axis=2)
    step = (most - least) / 15
    rounding = 15 * (step * 2.0**-11 + 2.0**-25) + np.abs(least) * 2.0**-11 + 2.0**-25
    # Float32 sums of the squares decide between candidates, hence the second term.
    bound = 32 * (step / 2 + rounding) ** 2
    assert (error(weight, matrix) <= bound * 1.001 + 1e-12).all()


@given(matrix=matrices, kind=st.sampled_from(["w8", "w4"]))
def test_numbers_are_half_floats(matrix: Matrix, kind: Literal["w8", "w4"]) -> None:
    weight = QUANTISE[kind](matrix)
    for numbers in (weight.scale, weight.minimum):
        if numbers is not None:
            values = values_of(numbers)
            np.testing.assert_array_equal(values, values.astype(np.float16).astype(np.float32))


@given(seed=st.integers(0, 2**32))
def test_what_has_sixteen_levels_already_comes_back(seed: int) -> None:
    random = np.random.default_rng(seed)
    codes = random.integers(0, 16, (3, 64)).astype(np.float32)
    groups(codes)[..., :2] = 0, 15
    matrix = codes * np.float32(0.25) - np.float32(2)
    np.testing.assert_array_equal(to_w4(matrix).dequantise(), matrix)


def test_the_search_pays() -> None:
    matrix = np.random.default_rng(1).standard_t(5, (64, 512)).astype(np.float32)
    grouped = groups(matrix)
    least = grouped.min(axis=2, keepdims=True)
    step = (grouped.max(axis=2, keepdims=True) - least) / 15
    plain = np.square(np.rint((grouped - least) / step) * step + least - grouped).sum()
    assert error(to_w4(matrix), matrix).sum() < 0.85 * plain


@pytest.mark.parametrize("kind", ["w8", "w4"])
def test_a_group_is_quantised_alone(kind: Literal["w8", "w4"], monkeypatch) -> None:
    """Whatever part of the matrix a thread takes."""
    matrix = np.random.default_rng(2).normal(size=(9, 96)).astype(np.float32)
    whole = QUANTISE[kind](matrix)
    monkeypatch.setattr(quantisation, "CHUNK", 64)
    parts = QUANTISE[kind](matrix)
    np.testing.assert_array_equal(parts.codes, whole.codes)
    np.testing.assert_array_equal(parts.scale, whole.scale)
    np.testing.assert_array_equal(parts.minima(), whole.minima())


def test_zeros_and_constants_stay_what_they_are() -> None:
    matrix = np.zeros((2, 32), np.float32)
    matrix[1] = -0.75
    np.testing.assert_array_equal(to_w4(matrix).dequantise(), matrix)
    np.testing.assert_array_equal(to_w8(matrix).dequantise()[0], matrix[0])


class Weights:
    """A source of these weights."""

    def __init__(self, **weights: Weight) -> None:
        self._weights = weights

    def load(self, name: str) -> Weight:
        return self._weights[name]


def dense(*shape: int) -> DenseWeight:
    return DenseWeight(np.random.default_rng(3).normal(size=shape).astype(np.float32))


def test_matrices_are_quantised_and_nothing_else() -> None:
    matrix, vector, router = dense(4, 64), dense(64), dense(8, 64)
    source = Quantised(Weights(m=matrix, v=vector, r=router), "w4", {"r"})
    quantised = source.load("m")
    assert isinstance(quantised, GroupedWeight)
    np.testing.assert_array_equal(quantised.codes, to_w4(matrix.values).codes)
    assert source.load("v") is vector
    assert source.load("r") is router
    with pytest.raises(KeyError):
        source.load("absent")


@pytest.mark.parametrize("kind", ["w8", "w4"])
def test_what_cannot_be_quantised_is_named(kind: Literal["w8", "w4"]) -> None:
    huge = DenseWeight(np.full((2, 32), -3e38, np.float32))
    huge.values[:, 0] = 3e38
    source = Quantised(
        Weights(odd=dense(4, 40), huge=huge, done=to_w8(dense(4, 64).values)), kind, ()
    )
    with pytest.raises(ValueError, match=r"'odd' has 40 columns.* a multiple of 32"):
        source.load("odd")
    with pytest.raises(ValueError, match="'huge' holds weights beyond 65504"):
        source.load("huge")
    with pytest.raises(ValueError, match="'done' is quantised already"):
        source.load("done")


# ---- whole models ----


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint in bfloat16 whose embedding is the output matrix too, and another whose
    layers are mixtures of experts."""
    path = tmp_path_factory.mktemp("checkpoints")
    for name in ("smollm2", "qwen3moe"):
        FAMILIES[name].model().bfloat16().save_pretrained(path / name)
    return path


@pytest.mark.parametrize("kind", ["w8", "w4"])
@pytest.mark.parametrize("name", ["smollm2", "qwen3moe"])
def test_a_model_quantised_at_load_is_the_one_quantised_ahead(
    folder: Path, name: str, kind: Literal["w8", "w4"]
) -> None:
    plain, quantised = open_model(folder / name), open_model(folder / name, quantization=kind)
    ahead: dict[str, Weight] = {}
    for weight_name, _ in required_weights(plain.program):
        weight = plain.weights.load(weight_name)
        matrix = isinstance(weight, DenseWeight) and weight.values.ndim == 2
        if matrix and not weight_name.endswith("ffn_gate_inp.weight"):
            tied = weight_name in ("token_embd.weight", "output.weight")
            weight = QUANTISE["w8" if tied else kind](weight.values)
        ahead[weight_name] = weight
    ids = np.arange(1, 90, dtype=np.int32)
    found, expected = (
        logits_of(load(CpuBackend(), model, 100, 64), ids, 64)
        for model in (quantised, replace(plain, weights=Weights(**ahead)))
    )
    assert np.array_equal(found, expected)
    assert not np.array_equal(found, logits_of(load(CpuBackend(), plain, 100, 64), ids, 64))
    assert isinstance(ahead["token_embd.weight"], GroupedWeight)


@pytest.mark.parametrize("kind", ["w8", "w4"])
def test_float_gguf_files_can_be_quantised_too(tmp_path: Path, kind: Literal["w8", "w4"]) -> None:
    model = open_model(write_tiny(tmp_path / "m.gguf", "llama"), quantization=kind)
    assert isinstance(model.weights.load("blk.0.attn_q.weight"), GroupedWeight)
    assert isinstance(model.weights.load("blk.0.attn_norm.weight"), DenseWeight)


def test_what_is_quantised_already_is_refused_by_name(tmp_path: Path) -> None:
    family = FAMILIES["llama-2"]
    kind = GGMLQuantizationType.Q8_0
    path = export(family.model(), "llama", tmp_path / "m.gguf", quantised=kind)
    with pytest.raises(ModelFileError, match=r"tensor 'token_embd.weight' is Q8_0.* F16 and BF16"):
        open_model(path, quantization="w4")


def test_a_matrix_that_has_no_whole_groups_is_refused_by_name(tmp_path: Path) -> None:
    path = write_tiny(
        tmp_path / "m.gguf",
        "llama",
        metadata={"llama.feed_forward_length": 40},
        extra={
            f"blk.{layer}.ffn_{part}.weight": (WIDTH, 40) if part == "down" else (40, WIDTH)
            for layer in range(LAYERS)
            for part in ("gate", "up", "down")
        },
    )
    with pytest.raises(ModelFileError, match=r"'blk.0.ffn_down.weight' has 40 columns; to w8"):
        open_model(path, quantization="w8")


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("kind", ["w8", "w4"])
def test_one_float_matrix_at_a_time_is_all_that_loading_needs(
    kind: Literal["w8", "w4"], dtype: str
) -> None:
    n, k = 1536, 2048
    stored = {kind.name: kind for kind in TENSOR_TYPES.values()}[dtype]
    raw = np.zeros(n * k * stored.size, np.uint8)
    tensor = Tensor("t", (n, k), stored, 0, raw.nbytes)

    class File:
        def load(self, name: str) -> Weight:
            return decode(stored, (n, k), raw)

    tracemalloc.start()
    weight = Quantised(File(), kind, ()).load("t")
    left, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    described = describe({"t": tensor}, kind, ())["t"]
    chunks = quantisation.MOST_THREADS * 16 * 4 * quantisation.CHUNK
    assert peak + raw.nbytes <= decoding_bytes(described) + chunks
    assert left < 1.3 * n * k
    matrix = pack(_native.Machine("scalar", 1), weight)
    assert 0.95 * packed_bytes(described) <= matrix.bytes <= packed_bytes(described)
