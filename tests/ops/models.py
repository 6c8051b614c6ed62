"""Two-layer models of random weights that between them use every operation and format."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headrace.ops.backend import Backend, Executable, KvCache
from headrace.ops.checks import required_weights
from headrace.ops.program import (
    Add,
    Attention,
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
from headrace.ops.weights import DenseWeight, Weight

from .programs import Weights, dense, grouped, limits

VOCAB, PADDED = 150, 168
WIDTH, FEED_FORWARD, LAYERS, EXPERTS = 64, 96, 2, 5


def _program(
    ops: list[Op], *, heads: int, kv_heads: int, head_dim: int, extra: dict[str, int] | None = None
) -> Program:
    return Program(
        ops=tuple(ops),
        buffers={
            **dict.fromkeys(("x", "h", "last"), WIDTH),
            **dict.fromkeys(("gate", "up"), FEED_FORWARD),
            **dict.fromkeys(("q", "a"), heads * head_dim),
            **dict.fromkeys(("k", "v"), kv_heads * head_dim),
            **(extra or {}),
        },
        layers=LAYERS,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        vocab_size=VOCAB,
        context_length=1024,
    )


def llama() -> Program:
    """Interleaved rope with factors, silu, one query head a key head, tied embedding."""
    ops: list[Op] = [Embed("x", "embed")]
    for n in range(LAYERS):
        ops += [
            Norm("h", "x", f"{n}.norm", 1e-5),
            Linear("h", tuple(Projection(o, f"{n}.{o}", bias=f"{n}.{o}.bias") for o in "qkv")),
            RotaryKV("q", "k", "v", n, Rope(10_000.0, 32, True, factors="factors")),
            Attention("a", "q", n, 32**-0.5),
            Linear("a", (Projection("x", f"{n}.o", accumulate=True),)),
            Norm("h", "x", f"{n}.ffn_norm", 1e-5),
            Linear("h", (Projection("gate", f"{n}.gate"), Projection("up", f"{n}.up"))),
            Gate("gate", "gate", "up", "silu"),
            Linear("gate", (Projection("x", f"{n}.down", accumulate=True),)),
        ]
    ops += [SelectRows("last", "x"), Norm("last", "last", "norm", 1e-5), Logits("last", "embed")]
    return _program(ops, heads=2, kv_heads=2, head_dim=32)


def gemma() -> Program:
    """NeoX rope, grouped queries with norms a head, a window, soft caps, gelu, norms after."""
    ops: list[Op] = [Embed("x", "embed", scale=8.0)]
    for n in range(LAYERS):
        ops += [
            Norm("h", "x", f"{n}.norm", 1e-6),
            Linear("h", tuple(Projection(o, f"{n}.{o}") for o in "qkv")),
            Norm("q", "q", f"{n}.q_norm", 1e-6, groups=4),
            Norm("k", "k", f"{n}.k_norm", 1e-6, groups=2),
            RotaryKV("q", "k", "v", n, Rope(1e6, 24, False, scale=0.125)),
            Attention("a", "q", n, 0.3, window=70 if n == 0 else None, softcap=20.0),
            Linear("a", (Projection("y", f"{n}.o"),)),
            Norm("y", "y", f"{n}.after", 1e-6),
            Add("x", "y"),
            Norm("h", "x", f"{n}.ffn_norm", 1e-6),
            Linear("h", (Projection("gate", f"{n}.gate"), Projection("up", f"{n}.up"))),
            Gate("gate", "gate", "up", "gelu"),
            Linear("gate", (Projection("y", f"{n}.down"),)),
            Add("x", "y"),
        ]
    ops += [SelectRows("last", "x"), Norm("last", "last", "norm", 1e-6)]
    ops += [Logits("last", "output", softcap=15.0)]
    return _program(ops, heads=4, kv_heads=2, head_dim=32, extra={"y": WIDTH})


def mixture(*, used: int = 2) -> Program:
    """Two layers of five experts: their routes add up to 1 or not, silu and gelu, added to the
    stream or by an operation of its own."""
    ops: list[Op] = [Embed("x", "embed")]
    for n in range(LAYERS):
        first = n == 0
        experts = tuple(
            Expert(f"{n}.{e}.gate", f"{n}.{e}.up", f"{n}.{e}.down") for e in range(EXPERTS)
        )
        ops += [
            Norm("h", "x", f"{n}.norm", 1e-5),
            Linear("h", tuple(Projection(o, f"{n}.{o}") for o in "qkv")),
            RotaryKV("q", "k", "v", n, Rope(10_000.0, 32, False)),
            Attention("a", "q", n, 32**-0.5),
            Linear("a", (Projection("x", f"{n}.o", accumulate=True),)),
            Norm("h", "x", f"{n}.ffn_norm", 1e-5),
            Linear("h", (Projection("scores", f"{n}.router"),)),
            Route("routes", "scores", used, normalise=first),
            Experts(
                "x" if first else "y",
                "h",
                "routes",
                experts,
                FEED_FORWARD,
                "silu" if first else "gelu",
                accumulate=first,
            ),
        ]
        if not first:
            ops.append(Add("x", "y"))
    ops += [SelectRows("last", "x"), Norm("last", "last", "norm", 1e-5), Logits("last", "embed")]
    extra = {"scores": EXPERTS, "routes": EXPERTS, "y": WIDTH}
    return _program(ops, heads=4, kv_heads=2, head_dim=32, extra=extra)


def weights(program: Program, *, quantised: bool) -> Weights:
    """quantised: matrices in turn of each grouped format; else of each dense one."""
    rng = np.random.default_rng(7)
    makers: list[Callable[[int, int, float], Weight]] = (
        [
            lambda n, k, s: grouped(rng, n, k, bits=8, spread=s),
            lambda n, k, s: grouped(rng, n, k, bits=4, spread=s),
            lambda n, k, s: grouped(rng, n, k, bits=4, minima=True, kept="float", spread=s),
            lambda n, k, s: grouped(rng, n, k, bits=5, spread=s),
            lambda n, k, s: grouped(rng, n, k, bits=6, group=16, spread=s),
            lambda n, k, s: grouped(rng, n, k, bits=8, group=16, spread=s),
            lambda n, k, s: grouped(rng, n, k, bits=8, minima=True, spread=s),
            lambda n, k, s: grouped(rng, n, k, bits=4, group=16, minima=True, spread=s),
        ]
        if quantised
        else [
            lambda n, k, s: dense(rng, n, k, spread=s),
            lambda n, k, s: dense(rng, n, k, spread=s, storage="float16"),
            lambda n, k, s: dense(rng, n, k, spread=s, storage="bfloat16"),
        ]
    )
    made: dict[str, Weight] = {}
    for name, shape in required_weights(program):
        if len(shape) == 1:
            made[name] = DenseWeight(rng.uniform(0.5, 1.5, shape).astype(np.float32))
            continue
        n = PADDED if shape[0] == VOCAB else shape[0]
        make = makers[len(made) % len(makers)]
        made.setdefault(name, make(n, shape[1], 1.5 * shape[1] ** -0.5))
    return Weights(made)


def load(
    backend: Backend,
    program: Program,
    *,
    quantised: bool = True,
    threads: int = 1,
    kv_cache: KvCache = "int16",
    chunk: int = 0,
) -> Executable:
    sizes = limits(threads=threads, kv_cache=kv_cache, chunk=chunk)
    return backend.load(program, weights(program, quantised=quantised), sizes)
