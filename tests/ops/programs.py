"""Weights, batches and tiny programs for the tests of the backends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace.ops.backend import (
    BLOCK_SIZE,
    Backend,
    Batch,
    Executable,
    KvCache,
    Limits,
    Prompt,
)
from headrace.ops.program import (
    Attention,
    Embed,
    Logits,
    Op,
    Program,
    Rope,
    RotaryKV,
    SelectRows,
)
from headrace.ops.weights import UNIT_COLUMNS, DenseWeight, GroupedWeight, Multiples, Weight

Floats = NDArray[np.float32]
Storage = Literal["float32", "float16", "bfloat16"]


class Weights:
    """A checkpoint in memory."""

    def __init__(self, weights: Mapping[str, Weight]) -> None:
        self._weights = weights

    def load(self, name: str) -> Weight:
        return self._weights[name]


def stored(values: NDArray[np.floating], storage: Storage) -> Floats:
    """float32 numbers that `storage` holds exactly."""
    values = values.astype(np.float32)
    if storage == "float16":
        return values.astype(np.float16).astype(np.float32)
    if storage == "bfloat16":
        return (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return values


def dense(
    rng: np.random.Generator, *shape: int, spread: float = 1.0, storage: Storage = "float32"
) -> DenseWeight:
    return DenseWeight(stored(rng.normal(0, spread, shape), storage))


Kept = Literal["half", "float", "multiples"]


def multiples(rng: np.random.Generator, n: int, k: int, group: int, peak: float) -> Multiples:
    """Numbers up to about `peak` as K-quants have them; some are 0, some negative."""
    unit = rng.uniform(0.5, 1.5, (n, k // UNIT_COLUMNS)) * peak / 64
    return Multiples(unit.astype(np.float16), rng.integers(-8, 64, (n, k // group)).astype(np.int8))


def grouped(
    rng: np.random.Generator,
    n: int,
    k: int,
    *,
    bits: Literal[4, 5, 6, 8],
    group: Literal[16, 32] = 32,
    minima: bool = False,
    kept: Kept = "half",
    spread: float = 1.0,
) -> GroupedWeight:
    """Random codes whose weights deviate by about `spread` from zero.

    minima: each group has a minimum of its own; else all have their zero at the middle code.
    kept: how scales and minima are. A few groups have the scale 0.
    """
    codes = rng.integers(0, 2**bits, (n, k)).astype(np.uint8)
    grid = (n, k // group)
    step, zero = spread * np.sqrt(12) / 2**bits, 2 ** (bits - 1)
    if kept == "multiples":
        scales = multiples(rng, n, k, group, 2 * step)
        least = multiples(rng, n, k, group, -2 * step * zero) if minima else None
        return GroupedWeight(bits, group, codes, scales, least, 0 if minima else zero)
    storage: Storage = "float16" if kept == "half" else "float32"
    scale = stored(step * rng.uniform(0.5, 1.5, grid), storage)
    scale[rng.random(grid) < 0.03] = 0
    if not minima:
        return GroupedWeight(bits, group, codes, scale, zero=zero)
    minimum = stored(-scale * zero * rng.uniform(0.5, 1.5, grid), storage)
    minimum[scale == 0] = np.float32(0.25 * spread)
    return GroupedWeight(bits, group, codes, scale, minimum)


@dataclass(frozen=True, slots=True)
class Part:
    """A sequence's share of a step: tokens at positions start .. start + len(tokens)."""

    tokens: Sequence[int]
    start: int
    blocks: Sequence[int]


def batch_of(*parts: Part, rows: Sequence[int] | None = None) -> Batch:
    """The step of these parts; rows: whose logits are wanted (None: of all tokens)."""
    tokens = np.concatenate([np.asarray(p.tokens, np.int32) for p in parts])
    positions = np.concatenate([np.arange(p.start, p.start + len(p.tokens)) for p in parts])
    starts = np.cumsum([0] + [len(p.tokens) for p in parts])
    tables = np.full((len(parts), max(len(p.blocks) for p in parts)), 1 << 30, np.int32)
    for table, part in zip(tables, parts, strict=True):
        table[: len(part.blocks)] = part.blocks
    wanted = np.arange(len(tokens)) if rows is None else np.asarray(rows)
    return Batch(
        tokens, positions.astype(np.int32), starts.astype(np.int32), tables, wanted.astype(np.int32)
    )


def blocks_for(tokens: int, first: int = 0) -> list[int]:
    return list(range(first, first + -(-tokens // BLOCK_SIZE)))


def step(executable: Executable, *parts: Part, rows: Sequence[int] | None = None) -> Floats:
    executable.launch(batch_of(*parts, rows=rows))
    return executable.logits()


def ahead(executable: Executable, part: Part) -> Prompt:
    """Let a part be computed beside the steps to come."""
    prompt = Prompt(np.array(part.tokens, np.int32), part.start, np.array(part.blocks, np.int32))
    executable.begin(prompt)
    return prompt


def limits(
    *,
    tokens: int = 512,
    sequences: int = 16,
    blocks: int = 64,
    threads: int = 1,
    kv_cache: KvCache = "int16",
    chunk: int = 0,
) -> Limits:
    return Limits(tokens, sequences, blocks, threads, kv_cache, chunk)


@dataclass(frozen=True, slots=True)
class Probe:
    """Operations between tables and a window: token t feeds row t of each table into the
    buffer of the table's name, and the logits are what the operations leave in `out`,
    unchanged (times an identity matrix).
    """

    tables: Mapping[str, Floats]
    ops: tuple[Op, ...]
    out: str
    buffers: Mapping[str, int]
    weights: Mapping[str, Weight]
    layers: int = 1
    heads: int = 1
    kv_heads: int = 1
    head_dim: int = 16

    @property
    def rows(self) -> int:
        return len(next(iter(self.tables.values())))

    def program(self) -> Program:
        widths = {**self.buffers, **{name: t.shape[1] for name, t in self.tables.items()}}
        widths["window"] = widths[self.out]
        embeds: list[Op] = [Embed(name, f"{name}.table") for name in self.tables]
        ends: list[Op] = [SelectRows("window", self.out), Logits("window", "identity")]
        return Program(
            ops=(*embeds, *self.ops, *ends),
            buffers=widths,
            layers=self.layers,
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            vocab_size=self.rows,
            context_length=4096,
        )

    def source(self) -> Weights:
        width = self.program().buffers[self.out]
        identity = DenseWeight(np.eye(max(width, self.rows), width, dtype=np.float32))
        tables = {f"{name}.table": DenseWeight(table) for name, table in self.tables.items()}
        return Weights({**self.weights, **tables, "identity": identity})

    def load(self, backend: Backend, *, threads: int = 1) -> Executable:
        tokens = max(self.rows, 16)
        return backend.load(self.program(), self.source(), limits(tokens=tokens, threads=threads))

    def run(self, backend: Backend, *parts: Part, threads: int = 1) -> Floats:
        """What `out` holds after a step of all rows in order, or of the parts: [T, width]."""
        executable = self.load(backend, threads=threads)
        everything = Part(range(self.rows), 0, blocks_for(self.rows))
        width = self.program().buffers[self.out]
        return step(executable, *(parts or (everything,)))[:, :width]


def table(rng: np.random.Generator, rows: int, width: int, spread: float = 1.0) -> Floats:
    return rng.normal(0, spread, (rows, width)).astype(np.float32)


def attention_probe(
    rng: np.random.Generator,
    rows: int,
    *,
    heads: int = 4,
    kv_heads: int = 2,
    head_dim: int = 32,
    rope: Rope | None = None,
    window: int | None = None,
    softcap: float | None = None,
    factors: Weight | None = None,
) -> Probe:
    tables = {
        "q": table(rng, rows, heads * head_dim, 2.0),
        "k": table(rng, rows, kv_heads * head_dim),
        "v": table(rng, rows, kv_heads * head_dim),
    }
    ops: tuple[Op, ...] = (
        RotaryKV("q", "k", "v", 0, rope),
        Attention("a", "q", 0, head_dim**-0.5, window, softcap),
    )
    return Probe(
        tables,
        ops,
        "a",
        {"a": heads * head_dim},
        {"factors": factors} if factors else {},
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
    )
