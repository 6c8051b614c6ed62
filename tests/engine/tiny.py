"""A model of random weights, small enough for the numpy backend to run engines on."""

from __future__ import annotations

import zlib

import numpy as np

from headrace.ops.backend import Backend, Executable, Limits
from headrace.ops.checks import required_weights
from headrace.ops.program import (
    Attention,
    Embed,
    Gate,
    Linear,
    Logits,
    Norm,
    Op,
    Program,
    Projection,
    Rope,
    RotaryKV,
    SelectRows,
)
from headrace.ops.weights import DenseWeight, GroupedWeight, Weight

from .fakes import VOCAB

WIDTH, HEADS, KV_HEADS, HEAD_DIM, FEED_FORWARD, LAYERS = 64, 4, 2, 32, 96, 2


def program() -> Program:
    """A two-layer Llama."""
    ops: list[Op] = [Embed("x", "embed")]
    rope = Rope(base=10_000.0, dims=HEAD_DIM, interleaved=True)
    for n in range(LAYERS):
        ops += [
            Norm("h", "x", f"{n}.attention_norm", 1e-5),
            Linear("h", tuple(Projection(out, f"{n}.{out}") for out in ("q", "k", "v"))),
            RotaryKV("q", "k", "v", n, rope),
            Attention("a", "q", n, HEAD_DIM**-0.5),
            Linear("a", (Projection("x", f"{n}.o", accumulate=True),)),
            Norm("h", "x", f"{n}.ffn_norm", 1e-5),
            Linear("h", (Projection("gate", f"{n}.gate"), Projection("up", f"{n}.up"))),
            Gate("gate", "gate", "up", "silu"),
            Linear("gate", (Projection("x", f"{n}.down", accumulate=True),)),
        ]
    ops += [SelectRows("last", "x"), Norm("last", "last", "norm", 1e-5), Logits("last", "output")]
    return Program(
        ops=tuple(ops),
        buffers={
            "x": WIDTH,
            "h": WIDTH,
            "last": WIDTH,
            "q": HEADS * HEAD_DIM,
            "a": HEADS * HEAD_DIM,
            "k": KV_HEADS * HEAD_DIM,
            "v": KV_HEADS * HEAD_DIM,
            "gate": FEED_FORWARD,
            "up": FEED_FORWARD,
        },
        layers=LAYERS,
        heads=HEADS,
        kv_heads=KV_HEADS,
        head_dim=HEAD_DIM,
        vocab_size=VOCAB,
        context_length=1024,
    )


class RandomWeights:
    """Norms near one, matrices of W4 or W8 codes around zero; the same ones every time."""

    def __init__(self) -> None:
        self._shapes = dict(required_weights(program()))

    def load(self, name: str) -> Weight:
        shape = self._shapes[name]
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        if len(shape) == 1:
            return DenseWeight(rng.uniform(0.5, 1.5, shape).astype(np.float32))
        bits = 4 if name[-1] in "qvpn" else 8
        spread = 4 / np.sqrt(shape[1]) if name in ("embed", "output") else 2 / np.sqrt(shape[1])
        groups = (shape[0], shape[1] // 32)
        step = rng.uniform(0.5, 1.5, groups).astype(np.float32) * np.float32(spread * 2**-bits * 2)
        codes = rng.integers(0, 2**bits, shape).astype(np.uint8)
        return GroupedWeight(bits, 32, codes, step, zero=2 ** (bits - 1))


def load(backend: Backend, *, blocks: int, threads: int = 1, chunk: int = 0) -> Executable:
    limits = Limits(tokens=64, sequences=32, blocks=blocks, threads=threads, chunk=chunk)
    return backend.load(program(), RandomWeights(), limits)
