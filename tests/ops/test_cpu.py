"""Each operation of the CPU backend against the reference, and how it runs steps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.ops.backend import BLOCK_SIZE, kv_block_bytes
from headrace.ops.cpu import CpuBackend, available_isas, best_isa
from headrace.ops.program import (
    Add,
    Embed,
    Expert,
    Experts,
    Gate,
    Linear,
    Logits,
    Norm,
    Op,
    Program,
    Projection,
    Rope,
    RotaryKV,
    Route,
    SelectRows,
)
from headrace.ops.reference import ReferenceBackend
from headrace.ops.weights import DenseWeight, Weight

from . import models
from .programs import (
    Floats,
    Part,
    Probe,
    attention_probe,
    batch_of,
    blocks_for,
    dense,
    grouped,
    limits,
    step,
    table,
)

isas = pytest.mark.parametrize("isa", available_isas())
SEEDS = st.integers(0, 2**32 - 1)


def assert_agree(probe: Probe, isa: str, *parts: Part, threads: int = 1, tolerance: float) -> None:
    """tolerance: absolute, and relative to the reference's numbers."""
    got = probe.run(CpuBackend(isa), *parts, threads=threads)
    expected = probe.run(ReferenceBackend(), *parts)
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def assert_close_rows(got: Floats, expected: Floats) -> None:
    """For attention, whose values and weights have eight bits: a row may be off by 2 % of its
    norm. One position of 600 wrongly seen or left out is about 4 %."""
    error = np.linalg.norm(got - expected, axis=1)
    assert (error <= 0.02 * np.linalg.norm(expected, axis=1)).all()


def assert_attends(probe: Probe, isa: str, *, threads: int = 1) -> None:
    assert_close_rows(probe.run(CpuBackend(isa), threads=threads), probe.run(ReferenceBackend()))


# ---- operations on rows ----


@isas
@pytest.mark.parametrize("groups", [1, 2, 6])
@settings(max_examples=10, deadline=None)
@given(
    rows=st.integers(1, 40), part=st.integers(1, 70), eps=st.sampled_from([1e-6, 0.5]), seed=SEEDS
)
def test_norm(isa: str, groups: int, rows: int, part: int, eps: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = {"w": dense(rng, part)}
    x = {"x": table(rng, rows, part * groups, 10.0)}
    apart = Probe(x, (Norm("y", "x", "w", eps, groups),), "y", {"y": part * groups}, weights)
    assert_agree(apart, isa, tolerance=2e-6)
    in_place = Probe(x, (Norm("x", "x", "w", eps, groups),), "x", {}, weights)
    assert np.array_equal(in_place.run(CpuBackend(isa)), apart.run(CpuBackend(isa)))


@isas
@pytest.mark.parametrize("activation", ["silu", "gelu"])
@settings(max_examples=10, deadline=None)
@given(
    rows=st.integers(1, 40),
    width=st.integers(1, 70),
    spread=st.sampled_from([0.1, 3, 60]),
    seed=SEEDS,
)
def test_gate(
    isa: str, activation: Literal["silu", "gelu"], rows: int, width: int, spread: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    tables = {"gate": table(rng, rows, width, spread), "up": table(rng, rows, width)}
    for out in ("gate", "up", "apart"):
        probe = Probe(tables, (Gate(out, "gate", "up", activation),), out, {"apart": width}, {})
        assert_agree(probe, isa, tolerance=3e-6)


@isas
@settings(max_examples=10, deadline=None)
@given(rows=st.integers(1, 40), width=st.integers(1, 70), seed=SEEDS)
def test_add_is_exact(isa: str, rows: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = table(rng, rows, width), table(rng, rows, width)
    probe = Probe({"x": x, "y": y}, (Add("x", "y"),), "x", {}, {})
    assert np.array_equal(probe.run(CpuBackend(isa)), x + y)


EMBEDDINGS: dict[str, dict[str, Any]] = {
    "w8": {"bits": 8},
    "w8 groups of 16 with minima": {"bits": 8, "group": 16, "minima": True},
    "w4 with minima, float": {"bits": 4, "minima": True, "kept": "float"},
    "w4 with minima, multiples": {"bits": 4, "minima": True, "kept": "multiples"},
    "w5": {"bits": 5},
    "w6 groups of 16, multiples": {"bits": 6, "group": 16, "kept": "multiples"},
    "w4": {"bits": 4},
    "w4 groups of 16": {"bits": 4, "group": 16},
}


@pytest.mark.parametrize("kind", EMBEDDINGS)
@pytest.mark.parametrize("scale", [1.0, 8.0, 0.3])
def test_embedding_of_codes(kind: str, scale: float) -> None:
    rng = np.random.default_rng(4)
    embedding = grouped(rng, 70, 512, **EMBEDDINGS[kind])
    tables = {"x": table(rng, 70, 512)}
    probe = Probe(tables, (Embed("y", "w", scale),), "y", {"y": 512}, {"w": embedding})
    assert_agree(probe, best_isa(), tolerance=1e-6)


# ---- rotary embedding and attention ----


HEADS = [(1, 1, 16), (4, 2, 32), (8, 1, 64), (9, 3, 64), (2, 2, 80), (4, 1, 128), (1, 1, 256)]


@isas
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), HEADS)
@pytest.mark.parametrize("length", [1, 32, 33, 300])
def test_attention(isa: str, heads: int, kv_heads: int, head_dim: int, length: int) -> None:
    rng = np.random.default_rng(length)
    probe = attention_probe(rng, length, heads=heads, kv_heads=kv_heads, head_dim=head_dim)
    assert_attends(probe, isa)


@isas
@settings(max_examples=8, deadline=None)
@given(
    length=st.integers(1, 600),
    window=st.one_of(st.none(), st.integers(1, 50), st.sampled_from([255, 256, 257, 1000])),
    softcap=st.sampled_from([None, 1.0, 30.0]),
    threads=st.integers(1, 2),
    seed=SEEDS,
)
def test_windows_and_soft_caps(
    isa: str, length: int, window: int | None, softcap: float | None, threads: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    probe = attention_probe(rng, length, window=window, softcap=softcap)
    assert_attends(probe, isa, threads=threads)


@isas
@pytest.mark.parametrize("threads", [1, 2])
def test_shuffled_blocks(isa: str, threads: int) -> None:
    """Sequences whose blocks interleave, one of them given in two parts with others between."""
    rng = np.random.default_rng(5)
    probe = attention_probe(rng, 512)
    ids = rng.permutation(40)
    tokens = rng.integers(0, 512, 700)
    first, second, third = ids[:19].tolist(), ids[19:22].tolist(), ids[22:24].tolist()
    steps = [
        [Part(tokens[:300], 0, first), Part(tokens[600:650], 0, second)],
        [Part(tokens[650:652], 50, second), Part(tokens[652:690], 0, third)],
        [Part(tokens[690:691], 38, third), Part(tokens[300:598], 300, first)],
        [Part(tokens[598:599], 598, first), Part([3], 52, second), Part([4], 39, third)],
    ]
    executables = [probe.load(b, threads=threads) for b in (CpuBackend(isa), ReferenceBackend())]
    for parts in steps:
        got, expected = (step(executable, *parts) for executable in executables)
        assert_close_rows(got, expected)


ROPES = [
    Rope(10_000.0, 32, True),
    Rope(10_000.0, 32, False),
    Rope(1e6, 20, True, scale=0.25),
    Rope(500_000.0, 10, False, scale=3.0),
    Rope(10_000.0, 32, True, factors="factors"),
    Rope(10_000.0, 32, False, factors="factors"),
    Rope(10_000.0, 2, False),
    Rope(10_000.0, 8, False, divisors=(1.0, 1.5, 3.0, 8.0), magnitude=1.25),
    Rope(10_000.0, 8, True, factors="factors", divisors=(1.0, 1.5, 3.0, 8.0)),
]


@isas
@pytest.mark.parametrize("rope", ROPES, ids=str)
def test_rotary_embedding(isa: str, rope: Rope) -> None:
    rng = np.random.default_rng(6)
    factors = dense(rng, rope.dims // 2)
    factors.values[:] = np.abs(factors.values) + 1
    probe = attention_probe(rng, 120, rope=rope, factors=factors if rope.factors else None)
    assert_attends(probe, isa)
    turned = Probe(
        probe.tables, probe.ops[:1], "q", {}, probe.weights, heads=4, kv_heads=2, head_dim=32
    )
    for start in (0, 3900):
        assert_agree(turned, isa, Part(range(120), start, [1] * 130), tolerance=2e-6)


@isas
def test_stale_blocks_do_not_matter(isa: str) -> None:
    """A block that held NaN from an earlier sequence is as good as a new one."""
    rng = np.random.default_rng(8)
    probe = attention_probe(rng, 100)
    for name in ("k", "v"):
        probe.tables[name][99] = np.nan
    fresh, used = probe.load(CpuBackend(isa)), probe.load(CpuBackend(isa))
    assert np.isnan(step(used, Part([99] * 64, 0, [0, 1]))).all()
    for part in (Part(range(40), 0, [0, 1]), Part([50], 40, [0, 1])):
        got = step(used, part)
        assert np.isfinite(got).all()
        assert np.array_equal(got, step(fresh, part))


# ---- mixtures of experts ----


@isas
@pytest.mark.parametrize("normalise", [False, True])
@settings(max_examples=20, deadline=None)
@given(rows=st.integers(1, 20), experts=st.integers(1, 70), share=st.floats(0, 1), seed=SEEDS)
def test_route(isa: str, normalise: bool, rows: int, experts: int, share: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    used = 1 + round(share * (experts - 1))
    scores = table(rng, rows, experts, 3.0)
    scores[:, ::3] = 0.5  # equals: the first is chosen
    probe = Probe({"x": scores}, (Route("r", "x", used, normalise),), "r", {"r": experts}, {})
    assert_agree(probe, isa, tolerance=1e-6)
    routes = probe.run(CpuBackend(isa))
    assert (np.count_nonzero(routes, axis=1) == used).all()
    if normalise:
        np.testing.assert_allclose(routes.sum(axis=1), 1, rtol=1e-5)


def experts_probe(
    rng: np.random.Generator, routes: Floats, make: Callable[[int, int], Weight], **how: Any
) -> Probe:
    """Experts of 64 columns, 96 within, over the rows that the routes are for."""
    rows, count = routes.shape
    names = [Expert(f"{e}.gate", f"{e}.up", f"{e}.down") for e in range(count)]
    weights = {
        name: make(*shape)
        for expert in names
        for name, shape in (
            (expert.gate, (96, 64)),
            (expert.up, (96, 64)),
            (expert.down, (64, 96)),
        )
    }
    # A row's likeliest experts are those its routes name.
    tables = {"x": table(rng, rows, 64), "scores": routes, "y": table(rng, rows, 64)}
    used = int(np.count_nonzero(routes[0] > 0))
    ops = (
        Route("routes", "scores", used, normalise=True),
        Experts("y", "x", "routes", tuple(names), 96, **how),
    )
    return Probe(tables, ops, "y", {"routes": count}, weights)


@isas
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("activation", ["silu", "gelu"])
@pytest.mark.parametrize("accumulate", [False, True])
def test_experts(isa: str, threads: int, activation: str, accumulate: bool) -> None:
    """Some rows share an expert, one expert has all rows, one has none."""
    rng = np.random.default_rng(13)
    scores = np.full((60, 7), -9, np.float32)
    scores[:, 6] = 1
    scores[np.arange(60), rng.integers(0, 5, 60)] = rng.uniform(0.5, 1.5, 60)
    probe = experts_probe(
        rng,
        scores,
        lambda n, k: dense(rng, n, k, spread=0.2),
        activation=activation,
        accumulate=accumulate,
    )
    assert_agree(probe, isa, threads=threads, tolerance=1e-5)


GROUPED: list[dict[str, Any]] = [
    *({"bits": bits, "minima": minima} for bits in (4, 5, 8) for minima in (False, True)),
    {"bits": 6, "group": 16},
]


@isas
@pytest.mark.parametrize("kind", GROUPED, ids=str)
def test_experts_of_every_format(isa: str, kind: dict[str, Any]) -> None:
    rng = np.random.default_rng(14)
    scores = rng.normal(size=(40, 4)).astype(np.float32)
    scores[:, 1:3] = np.abs(scores[:, 1:3]) + 5
    scores[:, ::3] = -5
    probe = experts_probe(
        rng, scores, lambda n, k: grouped(rng, n, k, spread=0.2, **kind), activation="silu"
    )
    got, expected = probe.run(CpuBackend(isa)), probe.run(ReferenceBackend())
    assert np.linalg.norm(got - expected) <= 0.02 * np.linalg.norm(expected)
    # Alone, a row is what it is in company.
    for row in (0, 17, 39):
        alone = probe.run(CpuBackend(isa), Part([row], 0, [0]))
        assert np.array_equal(alone[0], got[row])


def test_experts_that_no_row_chose_are_not_read() -> None:
    """Their weights are not finite here: whoever multiplied by them would show it."""
    rng = np.random.default_rng(15)
    scores = np.array([[3, 2, -1, -2], [3, -1, 2, -2]], np.float32)

    def make(n: int, k: int) -> DenseWeight:
        return dense(rng, n, k, spread=0.2)

    probe = experts_probe(rng, scores, make, activation="silu")
    for name, weight in probe.weights.items():
        if name.startswith("3.") and isinstance(weight, DenseWeight):
            weight.values[:] = np.inf
    assert_agree(probe, best_isa(), tolerance=1e-5)


# ---- whole programs ----


def all_experts() -> Program:
    """Every row goes to all: two nearly equal scores must not decide what is compared."""
    return models.mixture(used=models.EXPERTS)


@isas
@pytest.mark.parametrize("quantised", [False, True], ids=["dense", "quantised"])
@pytest.mark.parametrize(
    "program", [models.llama, models.gemma, all_experts], ids=["llama", "gemma", "mixture"]
)
def test_programs(isa: str, program: Any, quantised: bool) -> None:
    """Logits of a prompt and of the tokens after it, some rows and none."""
    tokens = np.random.default_rng(9).integers(0, models.VOCAB, 330)
    blocks = blocks_for(330)
    steps = [
        (Part(tokens[:200], 0, blocks), [0, 7, 199]),
        (Part(tokens[200:230], 200, blocks), []),
        (Part(tokens[230:329], 230, blocks), [0, 50, 98]),
        (Part(tokens[329:], 329, blocks), [0]),
    ]
    executables = [
        models.load(backend, program(), quantised=quantised)
        for backend in (CpuBackend(isa), ReferenceBackend())
    ]
    for part, rows in steps:
        got, expected = (step(executable, part, rows=rows) for executable in executables)
        assert got.shape == (len(rows), models.PADDED)
        error, spread = np.linalg.norm(got - expected), np.linalg.norm(expected)
        # Eight bits of activations lose some percent in a tiny model; eight bits of values in
        # the cache lose half a percent, and more where experts multiply what attention adds.
        dense = 0.03 if program is all_experts else 0.01
        assert error <= (0.06 if quantised else dense) * spread


# ---- steps ----


def slow_probe() -> Probe:
    """Some tenths of a second a step on the plainest instruction set."""
    rng = np.random.default_rng(10)
    weights = {"w": dense(rng, 512, 512, spread=0.04)}
    ops = tuple(Linear(x, (Projection(out, "w"),)) for x, out in [("x", "y"), ("y", "x")] * 2)
    return Probe({"x": table(rng, 64, 512)}, ops, "x", {"y": 512}, weights)


def test_a_step_leaves_python_free() -> None:
    """launch returns while the step runs; waiting for it lets other threads go on."""
    probe = slow_probe()
    executable = probe.load(CpuBackend("scalar"))
    part = Part(range(64), 0, blocks_for(64))
    step(executable, part)
    moments: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.wait(0.001):
            moments.append(time.perf_counter())

    ticker = threading.Thread(target=tick)
    ticker.start()
    try:
        batch = batch_of(part)
        started = time.perf_counter()
        executable.launch(batch)
        launched = time.perf_counter()
        executable.logits()
        ended = time.perf_counter()
    finally:
        done.set()
        ticker.join()
    assert launched - started < (ended - started) / 2
    # If the wait held the interpreter, nothing would fall into the middle of it.
    quarter = (ended - launched) / 4
    assert any(launched + quarter < moment < ended - quarter for moment in moments)


def test_arrays_may_be_reused_after_launch() -> None:
    executable = models.load(CpuBackend(), models.llama())
    part = Part(range(100), 0, blocks_for(100))
    expected = step(executable, part)
    batch = batch_of(part)
    executable.launch(batch)
    for values in (batch.tokens, batch.positions, batch.block_tables, batch.logit_rows):
        values[:] = 0
    assert np.array_equal(executable.logits(), expected)


def test_rows_of_block_tables_are_contiguous() -> None:
    executable = models.load(CpuBackend(), models.llama())
    batch = batch_of(Part(range(100), 0, blocks_for(100)))
    with pytest.raises(ValueError, match="contiguous rows"):
        executable.launch(replace(batch, block_tables=np.repeat(batch.block_tables, 2, 1)[:, ::2]))


def test_a_step_nobody_waits_for() -> None:
    """The next launch waits for it; an executable dropped while it runs ends cleanly."""
    probe = slow_probe()
    executable = probe.load(CpuBackend("scalar"), threads=2)
    part = Part(range(64), 0, blocks_for(64))
    expected = step(executable, part)
    executable.launch(batch_of(Part(range(63, -1, -1), 0, blocks_for(64))))
    executable.launch(batch_of(part))
    assert np.array_equal(executable.logits(), expected)
    executable.launch(batch_of(part))
    del executable


def test_logits_are_a_copy() -> None:
    executable = models.load(CpuBackend(), models.llama())
    first = step(executable, Part([1, 2], 0, [0]))
    kept = first.copy()
    first[:] = 0
    assert np.array_equal(executable.logits(), kept)
    step(executable, Part([3, 4], 0, [0]))
    assert not first.any()


@pytest.mark.parametrize("backend", [CpuBackend(), ReferenceBackend()], ids=lambda b: b.name)
def test_results_need_a_step(backend: Any) -> None:
    executable = models.load(backend, models.llama())
    with pytest.raises(RuntimeError, match="no step was launched"):
        executable.logits()


# ---- the backend ----


def test_unknown_instruction_set() -> None:
    with pytest.raises(ValueError, match=r"no instruction set 'sse9' here; there is .*scalar"):
        CpuBackend("sse9")


def test_best_instruction_set_is_first() -> None:
    assert CpuBackend().isa == best_isa() == available_isas()[0]
    assert available_isas()[-1] == "scalar"


def test_no_threads() -> None:
    program: Program = models.llama()
    with pytest.raises(ValueError, match="threads"):
        CpuBackend().load(program, models.weights(program, quantised=True), limits(threads=0))


def test_bytes_of_a_block() -> None:
    program = models.gemma()
    for kv_cache, codes in (("int16", 3 * 32), ("int8", 2 * 32)):
        found = kv_block_bytes(program, CpuBackend.kv_row_bytes, kv_cache)
        assert found == 2 * 2 * (codes + 8) * BLOCK_SIZE


def rope_of(program: Program, **changes: Any) -> Program:
    ops = [
        replace(op, rope=replace(op.rope, factors=None, **changes))
        if isinstance(op, RotaryKV) and op.rope
        else op
        for op in program.ops
    ]
    return replace(program, ops=tuple(ops))


def without(program: Program, kind: type[Op]) -> Program:
    ops = [op for op in program.ops if not isinstance(op, kind)]
    return replace(program, ops=tuple(ops))


UNFIT: dict[str, tuple[Program, str]] = {
    "head_dim": (replace(models.llama(), head_dim=24), "head_dim must be a multiple of 16"),
    "heads": (replace(models.llama(), heads=3), "heads must be a multiple of kv_heads"),
    "fewer heads": (replace(models.llama(), kv_heads=1), "keys do not fit the heads"),
    "layers": (replace(models.llama(), layers=1), "a layer outside the program"),
    "odd rope": (rope_of(models.llama(), dims=7), "rope dims must be even"),
    "long rope": (rope_of(models.llama(), dims=34), "rope dims must be even and at most head_dim"),
    "logits of all rows": (without(models.llama(), SelectRows), "of selected rows"),
    "input overwritten": (
        Program(
            (Embed("x", "e"), Linear("x", (Projection("x", "w"),)), Logits("x", "e")),
            {"x": 64}, 1, 1, 1, 16, 20, 64,
        ),
        "cannot overwrite its input",
    ),
    "gate of other rows": (
        Program(
            (Embed("x", "e"), SelectRows("y", "x"), Gate("y", "x", "y", "silu"), Logits("y", "e")),
            {"x": 64, "y": 64}, 1, 1, 1, 16, 20, 64,
        ),
        "mixes rows",
    ),
    "too many experts chosen": (models.mixture(used=models.EXPERTS + 1), "at most all"),
    "no expert chosen": (models.mixture(used=0), "at least one expert"),
    "experts without routes": (without(models.mixture(), Route), "experts need routes"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNFIT)
def test_programs_the_kernels_cannot_run(name: str) -> None:
    program, message = UNFIT[name]
    with pytest.raises(ValueError, match=message):
        CpuBackend().load(program, models.weights(program, quantised=True), limits())
