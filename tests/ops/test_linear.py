"""Matrix products of the CPU backend against a model of what they compute."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from headrace.ops.cpu import CpuBackend, available_isas
from headrace.ops.program import Linear, Projection
from headrace.ops.weights import UNIT_COLUMNS, DenseWeight, GroupedWeight, Weight, values_of

from .programs import Floats, Kept, Probe, Storage, dense, grouped

ROWS = st.integers(1, 40) | st.integers(96, 100)
OUTPUTS = st.integers(1, 70)
SEEDS = st.integers(0, 2**32 - 1)
Bits = Literal[4, 5, 6, 8]
FORMATS: list[tuple[Bits, Literal[16, 32]]] = [(4, 32), (5, 32), (6, 16), (8, 32), (4, 16)]
KEPT: list[Kept] = ["half", "float", "multiples"]
GROUP = 32

isas = pytest.mark.parametrize("isa", available_isas())


class Activations:
    """Rows as the kernels quantise them: groups of 32 in 8 bits around the group's midpoint."""

    def __init__(self, x: Floats) -> None:
        groups = x.reshape(len(x), -1, GROUP)
        half = np.float32(0.5)
        centre = half * groups.max(axis=-1) + half * groups.min(axis=-1)
        self.centre: Floats = centre[..., None]
        distance = groups - self.centre
        peak = np.abs(distance).max(axis=-1, keepdims=True)
        flat = peak < 1e-30
        self.scale: Floats = np.where(flat, np.float32(0), peak / np.float32(127))
        inverse = np.where(flat, np.float32(0), np.float32(127) / np.where(flat, 1, peak))
        self.codes: Floats = np.rint(distance * inverse.astype(np.float32))
        self.shape = x.shape

    def values(self) -> NDArray[np.float64]:
        exact = self.codes.astype(np.float64) * self.scale + self.centre
        return exact.reshape(self.shape)

    def magnitudes(self) -> NDArray[np.float64]:
        """Of the terms that are summed, before they cancel."""
        terms = np.abs(self.codes.astype(np.float64)) * self.scale + np.abs(self.centre)
        return terms.reshape(self.shape)

    def errors(self) -> NDArray[np.float64]:
        """The most that a value may have moved: half a step."""
        steps = np.broadcast_to(0.5 * self.scale.astype(np.float64), self.codes.shape)
        return steps.reshape(self.shape)


def weight_values(weight: GroupedWeight) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """float64 [n, k]: the weights, and the magnitudes of the terms they are sums of."""
    n, k = weight.codes.shape
    scale = values_of(weight.scale)[..., None].astype(np.float64)
    scaled = weight.codes.reshape(n, -1, weight.group) * scale
    minimum = weight.minima()[..., None].astype(np.float64)
    return (scaled + minimum).reshape(n, k), (np.abs(scaled) + np.abs(minimum)).reshape(n, k)


def product(isa: str, x: Floats, weight: Weight, *, threads: int = 1) -> Floats:
    n = (weight.values if isinstance(weight, DenseWeight) else weight.codes).shape[0]
    probe = Probe({"x": x}, (Linear("x", (Projection("y", "w"),)),), "y", {"y": n}, {"w": weight})
    return probe.run(CpuBackend(isa), threads=threads)


def activations(rng: np.random.Generator, rows: int, k: int) -> Floats:
    """Groups of all kinds: off centre, wide, narrow, constant, zero, and tiny."""
    groups = rng.normal(0, 1, (rows, k // GROUP, GROUP))
    kind = rng.integers(0, 6, groups.shape[:2])[..., None]
    choices = [groups, groups + 5, 30 * groups, 1e-3 * groups - 1, groups * 0 + 0.7, 0 * groups]
    mixed = np.choose(np.broadcast_to(kind, groups.shape), choices)
    mixed[rng.random(groups.shape[:2]) < 0.03] *= 1e-35
    return mixed.reshape(rows, k).astype(np.float32)


@isas
@pytest.mark.parametrize("minima", [False, True], ids=["zero", "minima"])
@pytest.mark.parametrize(("bits", "group"), FORMATS)
@settings(max_examples=12, deadline=None)
@given(rows=ROWS, n=OUTPUTS, groups=st.integers(1, 9), kept=st.sampled_from(KEPT), seed=SEEDS)
def test_grouped_products_are_those_of_the_codes(
    isa: str, bits: Bits, group: Literal[16, 32], minima: bool,
    rows: int, n: int, groups: int, kept: Kept, seed: int,
) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    k = groups * (UNIT_COLUMNS if kept == "multiples" else GROUP)
    weight = grouped(rng, n, k, bits=bits, group=group, minima=minima, kept=kept)
    x = activations(rng, rows, k)
    quantised = Activations(x)
    values, terms = weight_values(weight)
    got = product(isa, x, weight)
    # Float32 sums of some 3 terms a group; a code that is off by one would be seen.
    tolerance = 3e-6 * quantised.magnitudes() @ terms.T + 1e-30
    assert (np.abs(got - quantised.values() @ values.T) <= tolerance).all()
    # Against unquantised activations: no more than half a step of each is lost.
    lost = quantised.errors() @ np.abs(values).T
    assert (np.abs(got - x.astype(np.float64) @ values.T) <= lost * 1.001 + tolerance).all()


@pytest.mark.parametrize(("bits", "group"), FORMATS)
@pytest.mark.parametrize("minima", [False, True], ids=["zero", "minima"])
def test_grouped_products_are_close_to_float32(
    bits: Bits, group: Literal[16, 32], minima: bool
) -> None:
    rng = np.random.default_rng(3)
    weight = grouped(rng, 100, 512, bits=bits, group=group, minima=minima)
    x = rng.normal(0, 1, (20, 512)).astype(np.float32)
    exact = x @ weight.dequantise().T
    error = np.linalg.norm(product(available_isas()[0], x, weight) - exact)
    assert error < 0.01 * np.linalg.norm(exact)


@isas
@pytest.mark.parametrize("storage", ["float32", "float16", "bfloat16"])
@settings(max_examples=12, deadline=None)
@given(rows=ROWS, n=OUTPUTS, k=st.integers(1, 150), seed=SEEDS)
def test_dense_products_are_float32(
    isa: str, storage: Storage, rows: int, n: int, k: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    weight = dense(rng, n, k, storage=storage)
    x = rng.normal(0, 3, (rows, k)).astype(np.float32)
    exact = x.astype(np.float64) @ weight.values.T.astype(np.float64)
    tolerance = 2e-6 * np.abs(x) @ np.abs(weight.values).T + 1e-30
    assert (np.abs(product(isa, x, weight) - exact) <= tolerance).all()


@pytest.mark.parametrize("storage", ["float32", "float16", "bfloat16"])
def test_dense_weights_are_kept_exactly(storage: Storage) -> None:
    weight = dense(np.random.default_rng(1), 50, 40, storage=storage)
    weight.values[0, :4] = [
        0.0,
        2.0**-20,
        -(2.0**-24),
        60000.0 if storage != "bfloat16" else 2.0**30,
    ]
    units = np.eye(40, dtype=np.float32)
    assert np.array_equal(product(available_isas()[0], units, weight), weight.values.T)


@settings(max_examples=15, deadline=None)
@given(rows=ROWS, seed=SEEDS, threads=st.integers(1, 3))
@pytest.mark.parametrize("out", ["a", "b", "c"])
def test_projections_share_an_input(out: str, rows: int, seed: int, threads: int) -> None:
    """Grouped and dense side by side, with a bias, and added to what is there."""
    rng = np.random.default_rng(seed)
    x, c = rng.normal(0, 1, (rows, 64)), rng.normal(0, 1, (rows, 7))
    weights = {
        "wa": grouped(rng, 37, 64, bits=4, minima=True),
        "wb": dense(rng, 21, 64),
        "wc": grouped(rng, 7, 64, bits=8),
        "ba": dense(rng, 37),
        "bc": dense(rng, 7),
    }
    linear = Linear(
        "x",
        (
            Projection("a", "wa", bias="ba"),
            Projection("b", "wb"),
            Projection("c", "wc", bias="bc", accumulate=True),
        ),
    )
    tables = {"x": x.astype(np.float32), "c": c.astype(np.float32)}
    probe = Probe(tables, (linear,), out, {"a": 37, "b": 21}, weights)
    got = probe.run(CpuBackend(), threads=threads)
    alone = product(CpuBackend().isa, tables["x"], weights[f"w{out}"])
    added = {"a": weights["ba"].values, "b": np.float32(0), "c": weights["bc"].values}[out]
    expected = alone + added + (tables["c"] if out == "c" else np.float32(0))
    assert np.array_equal(got, expected.astype(np.float32))


def test_quantised_inputs_follow_their_buffer() -> None:
    """Codes made for one product are not reused once the buffer has changed."""
    rng = np.random.default_rng(2)
    x = rng.normal(0, 1, (5, 64)).astype(np.float32)
    weights = {"w": grouped(rng, 64, 64, bits=8), "v": grouped(rng, 64, 64, bits=8)}
    ops = (
        Linear("x", (Projection("y", "w"),)),
        Linear("y", (Projection("x", "v", accumulate=True),)),
        Linear("x", (Projection("z", "w"),)),
    )
    isa = CpuBackend().isa
    changed = x + product(isa, product(isa, x, weights["w"]), weights["v"])
    got = Probe({"x": x}, ops, "z", {"y": 64, "z": 64}, weights).run(CpuBackend())
    assert np.array_equal(got, product(isa, changed, weights["w"]))
