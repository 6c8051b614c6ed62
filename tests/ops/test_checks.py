"""Weights, batches and sampling that do not fit: a sentence, and nothing broken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from headrace.ops.backend import Adjustments, Backend, Batch, Executable, Masks, Sampling, Slice
from headrace.ops.checks import load_weights, required_weights
from headrace.ops.cpu import CpuBackend
from headrace.ops.program import Embed, Linear, Logits, Norm, Program, Projection, SelectRows
from headrace.ops.reference import ReferenceBackend
from headrace.ops.weights import GroupedWeight, Multiples, Weight

from . import models
from .programs import Floats, Part, Weights, ahead, batch_of, dense, grouped, limits, step

BACKENDS: list[Backend] = [CpuBackend(), ReferenceBackend()]
both = pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: b.name)


def ints(*values: int) -> Any:
    return np.array(values, np.int32)


# ---- batches ----


def good() -> Batch:
    """Two sequences of 3 and 40 tokens; positions 5 .. 7 and 0 .. 39."""
    tokens = np.random.default_rng(17).integers(0, models.VOCAB, 43).tolist()
    return batch_of(Part(tokens[:3], 5, [4]), Part(tokens[3:], 0, [0, 3]), rows=[2, 42])


def with_(field: str, index: Any, value: int) -> Batch:
    batch = good()
    getattr(batch, field)[index] = value
    return batch


BATCHES: dict[str, tuple[Batch, str]] = {
    "no token": (replace(good(), tokens=ints(), positions=ints()), "batch of 0 tokens; the limit"),
    "too many tokens": (
        batch_of(Part([0] * 513, 0, list(range(17)))),
        "batch of 513 tokens; the limit is 512",
    ),
    "no sequence": (replace(good(), starts=ints(0)), "batch of 0 sequences; the limit is 16"),
    "no starts": (replace(good(), starts=ints()), "batch of -1 sequences; the limit is 16"),
    "too many sequences": (
        batch_of(*(Part([1], 0, [s]) for s in range(17))),
        "batch of 17 sequences; the limit is 16",
    ),
    "positions missing": (
        replace(good(), positions=good().positions[:-1]),
        "42 positions for 43 tokens",
    ),
    "starts not from 0": (with_("starts", 0, 1), "starts must rise from 0"),
    "starts not to the end": (with_("starts", -1, 42), "starts must rise from 0"),
    "starts beyond the end": (with_("starts", -1, 1000), "starts must rise from 0"),
    "starts beyond the end within": (with_("starts", 1, 1000), "starts must rise from 0"),
    "empty sequence": (with_("starts", 1, 0), "starts must rise from 0"),
    "negative token": (with_("tokens", 7, -1), "token id outside the vocabulary of 150"),
    "token beyond vocabulary": (
        with_("tokens", 7, models.VOCAB),
        "token id outside the vocabulary of 150",
    ),
    "negative position": (
        batch_of(Part([1, 2, 3], -2, [0])),
        "position outside the context of 1024",
    ),
    "position beyond context": (
        batch_of(Part([1, 2, 3], 1022, list(range(33)))),
        "position outside the context of 1024",
    ),
    "position skipped": (with_("positions", slice(20, None), 30), "must be consecutive"),
    "positions fall": (with_("positions", 2, 5), "must be consecutive"),
    "blocks of one sequence": (
        replace(good(), block_tables=good().block_tables[:1]),
        r"block tables of shape \(1, 2\) for 2 sequences of up to 2 blocks",
    ),
    "blocks without columns": (
        replace(good(), block_tables=good().block_tables[:, :1]),
        r"block tables of shape \(2, 1\) for 2 sequences of up to 2 blocks",
    ),
    "blocks in a row": (
        replace(good(), block_tables=ints(4, 0)),
        r"block tables of shape \(2,\) for 2 sequences",
    ),
    "negative block": (with_("block_tables", (0, 0), -1), "block id outside the cache of 64"),
    "block beyond cache": (with_("block_tables", (1, 1), 64), "block id outside the cache of 64"),
    "negative row": (with_("logit_rows", 0, -1), "logit rows must rise"),
    "row beyond tokens": (with_("logit_rows", 1, 43), "logit rows must rise"),
    "rows not rising": (replace(good(), logit_rows=ints(2, 2)), "logit rows must rise"),
}


@pytest.fixture(scope="module", params=BACKENDS, ids=lambda b: b.name)
def executable(request: pytest.FixtureRequest) -> Executable:
    loaded: Executable = models.load(request.param, models.llama(), threads=2)
    return loaded


@pytest.fixture(scope="module")
def expected(executable: Executable) -> Floats:
    executable.launch(good())
    return executable.logits()


@pytest.mark.parametrize("fault", BATCHES)
def test_batches(executable: Executable, expected: Floats, fault: str) -> None:
    batch, message = BATCHES[fault]
    with pytest.raises(ValueError, match=message):
        executable.launch(batch)
    assert np.array_equal(executable.logits(), expected)  # of the step before
    executable.launch(good())
    assert np.array_equal(executable.logits(), expected)


def test_unused_columns_of_block_tables_may_hold_anything(executable: Executable) -> None:
    batch = good()
    assert batch.block_tables[0, 1] >= 64
    batch.block_tables[0, 1] = -7
    executable.launch(batch)
    assert np.isfinite(executable.logits()).all()


def test_block_tables_may_be_parts_of_wider_ones(executable: Executable, expected: Floats) -> None:
    batch = good()
    sequences, blocks = batch.block_tables.shape
    wide = np.full((sequences, blocks + 5), -1, np.int32)
    wide[:, :blocks] = batch.block_tables
    executable.launch(replace(batch, block_tables=wide[:, :blocks]))
    assert np.array_equal(executable.logits(), expected)


def test_last_position_of_the_context(executable: Executable) -> None:
    blocks = list(range(32))
    assert np.isfinite(step(executable, Part([1, 2], 1022, blocks))).all()


# ---- prompts beside the steps ----

PROMPTS: dict[str, tuple[Part, str]] = {
    "no token": (Part([], 0, [0]), "batch of 0 tokens"),
    "token beyond vocabulary": (Part([1, models.VOCAB], 0, [0]), "outside the vocabulary of 150"),
    "negative position": (Part([1], -1, [0]), "position outside the context of 1024"),
    "position beyond context": (Part([1, 2], 1023, [*range(33)]), "outside the context of 1024"),
    "blocks missing": (Part([1] * 33, 0, [0]), r"block tables of shape \(1, 1\) for 1 sequences"),
    "block beyond cache": (Part([1], 0, [64]), "block id outside the cache of 64"),
}


@both
@pytest.mark.parametrize("fault", PROMPTS)
def test_prompts(backend: Backend, fault: str) -> None:
    executable = models.load(backend, models.llama(), chunk=16)
    ahead(executable, Part([1] * 32, 0, [9]))
    part, message = PROMPTS[fault]
    with pytest.raises(ValueError, match=message):
        ahead(executable, part)
    tokens = 0  # of the one before
    for _ in range(2):
        executable.launch(good(), 60)
        executable.logits()
        tokens += executable.slice().tokens
    assert tokens == 32
    executable.launch(good())
    executable.logits()
    assert executable.slice() == Slice()


@both
def test_nothing_goes_beside_the_steps_without_a_chunk(backend: Backend) -> None:
    executable = models.load(backend, models.llama())
    with pytest.raises(ValueError, match="nothing is computed beside the steps here"):
        ahead(executable, Part([1], 0, [0]))
    with pytest.raises(ValueError, match="batch of 0 tokens"):
        executable.launch(EMPTY, 1)


@both
def test_a_slice_may_be_all_of_a_step(backend: Backend) -> None:
    executable = models.load(backend, models.llama(), chunk=16)
    prompt = ahead(executable, Part([1, 2, 3], 5, [7]))
    with pytest.raises(ValueError, match="batch of 0 tokens"):
        executable.launch(EMPTY)
    executable.launch(EMPTY, 60)
    prompt.tokens[:] = 9  # they have been copied
    assert executable.logits().shape[0] == 0
    slice = executable.slice()
    assert slice.tokens == 3
    assert 0 < slice.chunk_seconds <= slice.seconds < 60


EMPTY = Batch(ints(), ints(), ints(0), np.zeros((0, 0), np.int32), ints())


# ---- sampling ----


def sampling(rows: int = 2, **changes: Any) -> Sampling:
    fields: dict[str, Any] = {
        "temperature": np.ones(rows, np.float32),
        "top_k": np.zeros(rows, np.int32),
        "top_p": np.ones(rows, np.float32),
        "min_p": np.zeros(rows, np.float32),
        "draw": np.full(rows, 0.5),
        "top_logprobs": np.full(rows, 2, np.int32),
    }
    return Sampling(**{**fields, **changes})


def changed(**columns: Any) -> Sampling:
    good_columns: dict[str, Any] = {
        "row": ints(0, 1),
        "token": ints(3, 4),
        "divide": np.ones(2, np.float32),
        "add": np.ones(2, np.float32),
    }
    return sampling(adjustments=Adjustments(**{**good_columns, **columns}))


def masked(shape: int | tuple[int, int], *rows: int) -> Sampling:
    return sampling(masks=Masks(ints(*rows), np.ones(shape, np.uint32)))


def floats(*values: float) -> Floats:
    return np.array(values, np.float32)


SAMPLINGS: dict[str, tuple[Sampling, str]] = {
    **{
        f"{name} of another step": (
            sampling(**{name: getattr(sampling(3), name)}),
            rf"{name} has shape \(3,\) for 2 logits rows",
        )
        for name in ("temperature", "top_k", "top_p", "min_p", "draw", "top_logprobs")
    },
    **{
        f"{name} {value}": (
            sampling(**{name: np.array([0.5, value], getattr(sampling(), name).dtype)}),
            f"{name} must be finite",
        )
        for name in ("temperature", "top_p", "min_p", "draw")
        for value in (np.nan, np.inf)
    },
    "draw of 1": (sampling(draw=np.array([0.5, 1.0])), r"draws must lie in \[0, 1\)"),
    "negative draw": (sampling(draw=np.array([-1e-9, 0.5])), r"draws must lie in \[0, 1\)"),
    "masks in a row": (masked(2, 1), r"masks have shape \(2,\) for 1 rows"),
    "masks of other rows": (masked((3, 5), 0, 1), r"masks have shape \(3, 5\) for 2 rows"),
    "short masks": (masked((2, 4), 0, 1), "masks have 4 words, need 5"),
    "mask before the first row": (masked((1, 5), -1), "mask for a row that does not exist"),
    "mask beyond": (masked((2, 5), 0, 2), "mask for a row that does not exist"),
    "ragged adjustments": (changed(token=ints(3)), "adjustments differ in length"),
    "negative row": (changed(row=ints(0, -1)), "adjustment for a row that does not exist"),
    "row beyond": (changed(row=ints(0, 2)), "adjustment for a row that does not exist"),
    "negative token": (changed(token=ints(-1, 0)), "adjustment for a token outside the vocabulary"),
    "token in the padding": (
        changed(token=ints(0, models.VOCAB)),
        "adjustment for a token outside the vocabulary",
    ),
    "divided by 0": (changed(divide=floats(0, 1)), "divide by a positive number"),
    "divided by less": (changed(divide=floats(-1, 1)), "divide by a positive number"),
    "divided by NaN": (changed(divide=floats(np.nan, 1)), "divide by a positive number"),
    "infinity added": (changed(add=floats(np.inf, 1)), "not add infinity"),
    "NaN added": (changed(add=floats(np.nan, 1)), "not add infinity"),
}


@pytest.mark.parametrize("fault", SAMPLINGS)
def test_samplings(executable: Executable, fault: str) -> None:
    unfit, message = SAMPLINGS[fault]
    executable.launch(good())
    before = executable.sample(sampling()).tokens
    with pytest.raises(ValueError, match=message):
        executable.sample(unfit)
    assert np.array_equal(executable.sample(sampling()).tokens, before)


# ---- weights ----


RNG = np.random.default_rng(18)


def small() -> tuple[Program, dict[str, Weight]]:
    """Every kind of weight: looked up, normed with, multiplied by, added."""
    program = Program(
        ops=(
            Embed("x", "embed"),
            Norm("x", "x", "norm", 1e-5),
            Linear("x", (Projection("y", "w", bias="b"),)),
            SelectRows("last", "y"),
            Logits("last", "output"),
        ),
        buffers={"x": 64, "y": 32, "last": 32},
        layers=1,
        heads=1,
        kv_heads=1,
        head_dim=16,
        vocab_size=20,
        context_length=64,
    )
    return program, {
        "embed": grouped(RNG, 24, 64, bits=8),
        "norm": dense(RNG, 64),
        "w": grouped(RNG, 32, 64, bits=4, minima=True),
        "b": dense(RNG, 32),
        "output": dense(RNG, 20, 32),
    }


def odd(field: str, shape: tuple[int, int]) -> GroupedWeight:
    whole = grouped(RNG, 32, 64, bits=4, minima=True)
    return replace(whole, **{field: np.ones(shape, np.float32)})


def multiples_of(columns: int) -> GroupedWeight:
    counts = np.ones((32, 2), np.int8)
    units = np.ones((32, columns // 256), np.float16)
    return replace(grouped(RNG, 32, 64, bits=4), scale=Multiples(units, counts))


def vector_of_codes() -> GroupedWeight:
    whole = grouped(RNG, 1, 32, bits=8)
    return replace(whole, codes=whole.codes[0])


MISFITS: dict[str, tuple[str, Weight, str]] = {
    "too few outputs": (
        "w",
        grouped(RNG, 16, 64, bits=4),
        r"weight 'w' has shape \(16, 64\), the program needs \(32, 64\)",
    ),
    "too many outputs": ("w", dense(RNG, 33, 64), r"weight 'w' has shape \(33, 64\)"),
    "another width": ("w", grouped(RNG, 32, 96, bits=8), r"weight 'w' has shape \(32, 96\)"),
    "transposed": ("w", dense(RNG, 64, 32), r"weight 'w' has shape \(64, 32\)"),
    "vector for a matrix": ("w", dense(RNG, 32), r"weight 'w' has shape \(32,\)"),
    "matrix for a vector": ("norm", dense(RNG, 64, 1), r"weight 'norm' has shape \(64, 1\)"),
    "short norm": ("norm", dense(RNG, 32), r"weight 'norm' has shape \(32,\)"),
    "short bias": ("b", dense(RNG, 31), r"weight 'b' has shape \(31,\)"),
    "codes for a bias": ("b", vector_of_codes(), "weight 'b' must be dense"),
    "few tokens": (
        "embed",
        grouped(RNG, 19, 64, bits=8),
        r"weight 'embed' has shape \(19, 64\), the program needs at least \(20, 64\)",
    ),
    "few logits": ("output", dense(RNG, 19, 32), r"weight 'output' .* at least \(20, 32\)"),
    "scales of another shape": (
        "w",
        odd("scale", (32, 4)),
        r"weight 'w' has scales \(32, 4\) and minima \(32, 2\), its groups need \(32, 2\)",
    ),
    "too few columns for multiples": (
        "w",
        multiples_of(256),
        r"weight 'w' has 64 columns and units \(32, 1\): one is needed every 256 columns",
    ),
    "minima and a zero": (
        "w",
        replace(grouped(RNG, 32, 64, bits=4, minima=True), zero=8),
        "weight 'w' has minima, .* zero must be 0, not 8",
    ),
    "minima of another shape": ("w", odd("minimum", (31, 2)), r"minima \(31, 2\)"),
}


@both
@pytest.mark.parametrize("fault", MISFITS)
def test_weights_that_do_not_fit(backend: Backend, fault: str) -> None:
    name, weight, message = MISFITS[fault]
    program, weights = small()
    with pytest.raises(ValueError, match=message):
        backend.load(program, Weights({**weights, name: weight}), limits())


@both
def test_ragged_groups(backend: Backend) -> None:
    program, weights = small()
    program = replace(program, buffers={**program.buffers, "x": 48})
    weights["embed"], weights["norm"] = dense(RNG, 20, 48), dense(RNG, 48)
    codes = np.zeros((32, 48), np.uint8)
    weights["w"] = GroupedWeight(
        8, 16, codes, np.ones((32, 3), np.float32), np.ones((32, 3), np.float32)
    )
    with pytest.raises(ValueError, match=r"weight 'w' has 48 columns; .* multiple of 32"):
        backend.load(program, Weights(weights), limits())


@both
@pytest.mark.parametrize("name", ["embed", "norm", "w", "b", "output"])
def test_missing_weights(backend: Backend, name: str) -> None:
    program, weights = small()
    del weights[name]
    with pytest.raises(KeyError, match=name):
        backend.load(program, Weights(weights), limits())


@both
def test_one_weight_of_two_shapes(backend: Backend) -> None:
    program, weights = small()
    program = replace(
        program, ops=(*program.ops[:3], Norm("y", "y", "norm", 1e-5), *program.ops[3:])
    )
    with pytest.raises(ValueError, match=r"weight 'norm' is used as \(64,\) and as \(32,\)"):
        backend.load(program, Weights(weights), limits())


@both
def test_a_good_load_after_bad_ones(backend: Backend) -> None:
    program, weights = small()
    loaded = backend.load(program, Weights(weights), limits())
    assert step(loaded, Part([1, 2, 19], 0, [0])).shape == (3, 20)


def test_a_weight_is_loaded_once() -> None:
    program = models.llama()
    source = models.weights(program, quantised=True)
    names = [name for name, _ in load_weights(program, source)]
    assert len(names) == len(set(names))
    assert set(names) == {name for name, _ in required_weights(program)}
    assert {"embed", "factors", "0.q.bias"} <= set(names)
