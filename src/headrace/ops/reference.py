"""The oracle: a program interpreted in numpy float32, one operation after the other.

Weights are dequantised at load and the KV cache is float32, so nothing is approximate but
float32 itself. Slow on purpose: every line is meant to be checked by eye.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from headrace.ops.backend import (
    BLOCK_SIZE,
    Batch,
    KvCache,
    Limits,
    Prompt,
    Sampled,
    Sampling,
    Slice,
)
from headrace.ops.checks import check_batch, check_sampling, load_weights
from headrace.ops.program import (
    Add,
    Attention,
    Embed,
    Experts,
    Gate,
    Linear,
    Logits,
    Norm,
    Op,
    Program,
    Rope,
    RotaryKV,
    Route,
    SelectRows,
)
from headrace.ops.sampling import sample_rows
from headrace.ops.weights import DenseWeight, WeightSource

Floats = NDArray[np.float32]


class ReferenceBackend:
    """Backend "reference": float32, single-threaded, for tests and comparisons."""

    name = "reference"
    isa = "numpy"

    @staticmethod
    def kv_row_bytes(head_dim: int, kv_cache: KvCache) -> int:
        """Floats, whatever other backends make of them."""
        return 8 * head_dim

    def load(self, program: Program, weights: WeightSource, limits: Limits) -> ReferenceExecutable:
        values = {
            name: weight.values if isinstance(weight, DenseWeight) else weight.dequantise()
            for name, weight in load_weights(program, weights)
        }
        return ReferenceExecutable(program, values, limits)


class ReferenceExecutable:
    """A program interpreted eagerly: `launch` computes, `sample` and `logits` only read. A slice
    is the next chunk of the prompt beside the steps, whatever time that takes."""

    def __init__(self, program: Program, weights: dict[str, Floats], limits: Limits) -> None:
        self._program = program
        self._weights = weights
        self._limits = limits
        cache = (program.layers, limits.blocks, BLOCK_SIZE, program.kv_heads, program.head_dim)
        self._keys = np.zeros(cache, np.float32)
        self._values = np.zeros(cache, np.float32)
        self._buffers: dict[str, Floats] = {}
        self._logits: Floats | None = None
        self._chunks: list[Batch] = []  # that are left of the prompt, the next one last
        self._slice = Slice()

    def begin(self, prompt: Prompt) -> None:
        size, count = self._limits.chunk, len(prompt.tokens)
        if not size:
            raise ValueError("nothing is computed beside the steps here")
        check_batch(prompt.batch(), self._program, replace(self._limits, tokens=count))
        chunks = [prompt.batch(first, first + size) for first in range(0, count, size)]
        self._chunks = chunks[::-1]

    def launch(self, batch: Batch, slice_seconds: float = 0.0) -> None:
        slicing = self._limits.chunk > 0 and slice_seconds > 0
        if len(batch.tokens) or not slicing:
            check_batch(batch, self._program, self._limits)
        self._slice = self._prefill() if slicing else Slice()
        self._compute(batch)

    def slice(self) -> Slice:
        return self._slice

    def _prefill(self) -> Slice:
        if not self._chunks:
            return Slice()
        start = time.perf_counter()
        chunk = self._chunks.pop()
        self._compute(chunk)
        seconds = time.perf_counter() - start
        return Slice(len(chunk.tokens), seconds, seconds)

    def _compute(self, batch: Batch) -> None:
        if len(batch.tokens):
            for op in self._program.ops:
                self._run(op, batch)
        else:
            self._logits = np.zeros((0, self._program.vocab_size), np.float32)

    def logits(self) -> Floats:
        return self._step_logits().copy()

    def sample(self, sampling: Sampling) -> Sampled:
        logits = self._step_logits()
        check_sampling(sampling, len(logits), self._program.vocab_size)
        return sample_rows(logits[:, : self._program.vocab_size], sampling)

    def _step_logits(self) -> Floats:
        if self._logits is None:
            raise RuntimeError("no step was launched")
        return self._logits

    def _run(self, op: Op, batch: Batch) -> None:
        buffers, weights = self._buffers, self._weights
        match op:
            case Embed():
                buffers[op.out] = weights[op.weight][batch.tokens] * np.float32(op.scale)
            case Norm():
                buffers[op.out] = rms_norm(buffers[op.x], weights[op.weight], op.eps, op.groups)
            case Linear():
                x = buffers[op.x]
                for projection in op.projections:
                    out = x @ weights[projection.weight].T
                    if projection.bias is not None:
                        out += weights[projection.bias]
                    if projection.accumulate:
                        out += buffers[projection.out]
                    buffers[projection.out] = out
            case RotaryKV():
                self._rotate_and_store(op, batch)
            case Attention():
                buffers[op.out] = self._attend(op, batch)
            case Gate():
                activation = silu if op.activation == "silu" else gelu
                buffers[op.out] = activation(buffers[op.gate]) * buffers[op.up]
            case Route():
                buffers[op.out] = route(buffers[op.x], op.used, normalise=op.normalise)
            case Experts():
                self._mix(op)
            case Add():
                buffers[op.x] = buffers[op.x] + buffers[op.y]
            case SelectRows():
                buffers[op.out] = buffers[op.x][batch.logit_rows]
            case Logits():
                logits = buffers[op.x] @ weights[op.weight].T
                self._logits = softcap(logits, op.softcap)

    def _mix(self, op: Experts) -> None:
        x, routes = self._buffers[op.x], self._buffers[op.routes]
        activation = silu if op.activation == "silu" else gelu
        shape = (len(x), self._program.buffers[op.out])
        out = self._buffers[op.out].copy() if op.accumulate else np.zeros(shape, np.float32)
        for number, expert in enumerate(op.experts):
            (rows,) = np.nonzero(routes[:, number])
            gate, up, down = (self._weights[n] for n in (expert.gate, expert.up, expert.down))
            inner = activation(x[rows] @ gate.T) * (x[rows] @ up.T)
            out[rows] += routes[rows, number, None] * (inner @ down.T)
        self._buffers[op.out] = out

    def _heads(self, x: Floats) -> Floats:
        return x.reshape(len(x), -1, self._program.head_dim)

    def _rotate_and_store(self, op: RotaryKV, batch: Batch) -> None:
        q, k, v = (self._heads(self._buffers[name]) for name in (op.q, op.k, op.v))
        if op.rope is not None:
            factors = self._weights[op.rope.factors] if op.rope.factors else None
            q = rotate(q, batch.positions, op.rope, factors)
            k = rotate(k, batch.positions, op.rope, factors)
        self._buffers[op.q] = q.reshape(len(q), -1)
        sequence = np.repeat(np.arange(len(batch.starts) - 1), np.diff(batch.starts))
        block = batch.block_tables[sequence, batch.positions // BLOCK_SIZE]
        slot = batch.positions % BLOCK_SIZE
        self._keys[op.layer, block, slot] = k
        self._values[op.layer, block, slot] = v

    def _attend(self, op: Attention, batch: Batch) -> Floats:
        q = self._heads(self._buffers[op.q])
        out = np.empty_like(q)
        for s, (start, end) in enumerate(zip(batch.starts[:-1], batch.starts[1:], strict=True)):
            positions = batch.positions[start:end]
            length = int(positions[-1]) + 1
            blocks = batch.block_tables[s, : -(-length // BLOCK_SIZE)]
            k = self._keys[op.layer, blocks].reshape(-1, *self._keys.shape[3:])[:length]
            v = self._values[op.layer, blocks].reshape(-1, *self._values.shape[3:])[:length]
            group = self._program.heads // self._program.kv_heads
            k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
            scores = q[start:end].swapaxes(0, 1) @ k.transpose(1, 2, 0) * np.float32(op.scale)
            scores = softcap(scores, op.softcap)
            distance = positions[:, None] - np.arange(length)
            visible = distance >= 0
            if op.window is not None:
                visible &= distance < op.window
            out[start:end] = (softmax(scores, visible) @ v.swapaxes(0, 1)).swapaxes(0, 1)
        return out.reshape(len(out), -1)


def rms_norm(x: Floats, weight: Floats, eps: float, groups: int) -> Floats:
    """float32 [rows, width] -> the same; weight [width / groups]."""
    parts = x.reshape(len(x), groups, x.shape[1] // groups)
    mean_square = np.mean(parts * parts, axis=-1, keepdims=True)
    normed: Floats = parts / np.sqrt(mean_square + np.float32(eps)) * weight
    return normed.reshape(x.shape)


def rotate(x: Floats, positions: NDArray[np.int32], rope: Rope, factors: Floats | None) -> Floats:
    """x float32 [rows, heads, head_dim], turned by each row's position."""
    exponents = np.arange(rope.dims // 2) * 2 / rope.dims
    frequencies = rope.scale / rope.base**exponents
    if rope.divisors:
        frequencies = frequencies / np.array(rope.divisors, np.float32)
    if factors is not None:
        frequencies = frequencies / factors
    angles = positions[:, None, None] * frequencies
    cos = (rope.magnitude * np.cos(angles)).astype(np.float32)
    sin = (rope.magnitude * np.sin(angles)).astype(np.float32)
    turned = x[..., : rope.dims]
    if rope.interleaved:
        a, b = turned[..., 0::2], turned[..., 1::2]
    else:
        a, b = np.split(turned, 2, axis=-1)
    pair = (a * cos - b * sin, a * sin + b * cos)
    out = x.copy()
    if rope.interleaved:
        out[..., : rope.dims] = np.stack(pair, axis=-1).reshape(turned.shape)
    else:
        out[..., : rope.dims] = np.concatenate(pair, axis=-1)
    return out


def route(x: Floats, used: int, *, normalise: bool) -> Floats:
    """Softmax over the last axis of float32 [rows, experts], 0 but for the `used` greatest."""
    likeliest = np.argsort(-x, axis=1, kind="stable")[:, :used]
    chosen = np.zeros(x.shape, np.bool_)
    np.put_along_axis(chosen, likeliest, True, axis=1)
    return softmax(x, chosen) if normalise else softmax(x, np.ones_like(chosen)) * chosen


def softmax(scores: Floats, visible: NDArray[np.bool_]) -> Floats:
    """Over the last axis; positions not visible get 0."""
    scores = np.where(visible, scores, np.float32(-np.inf))
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    normed: Floats = weights / weights.sum(axis=-1, keepdims=True)
    return normed


def softcap(scores: Floats, cap: float | None) -> Floats:
    if cap is None:
        return scores
    capped: Floats = np.float32(cap) * np.tanh(scores / np.float32(cap))
    return capped


def silu(x: Floats) -> Floats:
    # exp may overflow to infinity for very negative x; the quotient is then 0, as it should be.
    with np.errstate(over="ignore"):
        activated: Floats = x / (1 + np.exp(-x))
    return activated


def gelu(x: Floats) -> Floats:
    """Tanh approximation (Hendrycks & Gimpel, arXiv:1606.08415)."""
    inner = np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x * x * x)
    activated: Floats = np.float32(0.5) * x * (1 + np.tanh(inner))
    return activated
