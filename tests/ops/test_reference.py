"""The reference against arithmetic spelled out number by number."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.ops.program import Attention, Linear, Projection, Rope, RotaryKV
from headrace.ops.reference import (
    ReferenceBackend,
    gelu,
    rms_norm,
    rotate,
    silu,
    softcap,
    softmax,
)
from headrace.ops.weights import values_of

from . import models
from .programs import Part, Probe, blocks_for, dense, grouped, step

SMALL = st.floats(-30, 30, width=32)


@given(st.lists(SMALL, min_size=1, max_size=20))
def test_activations(values: list[float]) -> None:
    x = np.array(values, np.float32)
    by_hand = [v / (1 + math.exp(-v)) for v in values]
    np.testing.assert_allclose(silu(x), by_hand, rtol=1e-5, atol=1e-6)
    # The exact gelu is x times the normal distribution; tanh comes within a thousandth of it.
    exact = [v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in values]
    np.testing.assert_allclose(gelu(x), exact, atol=2e-3)


def test_silu_of_extremes() -> None:
    assert silu(np.array([-1e4, 0, 1e4], np.float32)).tolist() == [0, 0, 1e4]


def test_norm() -> None:
    x = np.array([[3.0, 4.0, 0.0, 2.0]], np.float32)
    weight = np.array([1.0, 10.0], np.float32)
    whole = rms_norm(x, np.ones(4, np.float32), 0.75, 1)  # mean square 29 / 4
    np.testing.assert_allclose(whole, x / math.sqrt(8), rtol=1e-6)
    halves = rms_norm(x, weight, 0.0, 2)
    by_hand = [[3 / math.sqrt(12.5), 40 / math.sqrt(12.5), 0, 20 / math.sqrt(2)]]
    np.testing.assert_allclose(halves, by_hand, rtol=1e-6)


def test_soft_cap() -> None:
    x = np.array([-1e6, -1.0, 0.0, 0.01, 1e6], np.float32)
    by_hand = [-5, 5 * math.tanh(-0.2), 0, 5 * math.tanh(0.002), 5]
    np.testing.assert_allclose(softcap(x, 5.0), by_hand, rtol=1e-6)
    assert softcap(x, None) is x


def test_softmax_gives_hidden_positions_nothing() -> None:
    scores = np.array([[1.0, 2.0, 500.0], [0.0, 0.0, 0.0]], np.float32)
    visible = np.array([[True, True, False], [True, False, True]])
    e = math.e
    by_hand = [[1 / (1 + e), e / (1 + e), 0], [0.5, 0, 0.5]]
    np.testing.assert_allclose(softmax(scores, visible), by_hand, rtol=1e-6)


@pytest.mark.parametrize("interleaved", [True, False])
def test_rotation(interleaved: bool) -> None:
    """Each pair as a complex number times e^(i angle); what is beyond dims stays."""
    rng = np.random.default_rng(19)
    rope = Rope(100.0, 6, interleaved, scale=0.5, divisors=(1.0, 3.0, 0.5), magnitude=1.5)
    x = rng.normal(0, 1, (3, 2, 8)).astype(np.float32)
    factors = np.array([1.0, 2.0, 4.0], np.float32)
    positions = np.array([0, 7, 900], np.int32)
    got = rotate(x, positions, rope, factors)
    for row, position in enumerate(positions):
        for i in range(3):
            a, b = (2 * i, 2 * i + 1) if interleaved else (i, i + 3)
            divisor = rope.divisors[i] * float(factors[i])
            angle = 0.5 * position / (100.0 ** (2 * i / 6) * divisor)
            turned = (x[row, :, a] + 1j * x[row, :, b]) * 1.5 * np.exp(1j * angle)
            np.testing.assert_allclose(got[row, :, a], turned.real, atol=1e-6)
            np.testing.assert_allclose(got[row, :, b], turned.imag, atol=1e-6)
    assert np.array_equal(got[..., 6:], x[..., 6:])


@pytest.mark.parametrize(("window", "cap"), [(None, None), (3, None), (1, 2.0), (100, 0.5)])
def test_attention(window: int | None, cap: float | None) -> None:
    """Query heads in groups of two, each position on its own."""
    rng = np.random.default_rng(20)
    tables = {
        n: rng.normal(0, 1, (40, w)).astype(np.float32)
        for n, w in zip("qkv", (64, 32, 32), strict=True)
    }
    ops = (RotaryKV("q", "k", "v", 0, None), Attention("a", "q", 0, 0.25, window, cap))
    probe = Probe(tables, ops, "a", {"a": 64}, {}, heads=4, kv_heads=2, head_dim=16)
    got = probe.run(ReferenceBackend()).reshape(40, 4, 16)
    q, k, v = (tables[n].astype(np.float64).reshape(40, -1, 16) for n in "qkv")
    for t in range(40):
        first = 0 if window is None else max(0, t - window + 1)
        for h in range(4):
            scores = k[first : t + 1, h // 2] @ q[t, h] * 0.25
            if cap is not None:
                scores = cap * np.tanh(scores / cap)
            weights = np.exp(scores) / np.exp(scores).sum()
            np.testing.assert_allclose(got[t, h], weights @ v[first : t + 1, h // 2], atol=1e-5)


def test_projections() -> None:
    rng = np.random.default_rng(21)
    w, b = grouped(rng, 5, 32, bits=4, minima=True), dense(rng, 5)
    scale, minimum = values_of(w.scale), w.minima()
    x = rng.normal(0, 1, (3, 32)).astype(np.float32)
    y = rng.normal(0, 1, (3, 5)).astype(np.float32)
    linear = Linear("x", (Projection("y", "w", bias="b", accumulate=True),))
    got = Probe({"x": x, "y": y}, (linear,), "y", {}, {"w": w, "b": b}).run(ReferenceBackend())
    for t in range(3):
        for n in range(5):
            total = float(y[t, n]) + float(b.values[n])
            for c in range(32):
                value = float(w.codes[n, c]) * float(scale[n, 0]) + float(minimum[n, 0])
                total += float(x[t, c]) * value
            assert got[t, n] == pytest.approx(total, abs=1e-4)


@pytest.mark.parametrize("size", [1, 32, 50])
def test_chunks_are_close(size: int) -> None:
    tokens = np.random.default_rng(22).integers(0, models.VOCAB, 130)
    blocks = blocks_for(130, 3)
    whole = step(models.load(ReferenceBackend(), models.gemma()), Part(tokens, 0, blocks))
    chunked = models.load(ReferenceBackend(), models.gemma())
    parts = [step(chunked, Part(tokens[at : at + size], at, blocks)) for at in range(0, 130, size)]
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-3, atol=1e-3)
