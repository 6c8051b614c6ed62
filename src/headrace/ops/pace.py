"""How fast a program's steps are, beside what they must read and multiply at least."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.ops.backend import BLOCK_SIZE, Batch, Limits, Sampling
from headrace.ops.checks import used_experts
from headrace.ops.cpu import CpuBackend, CpuExecutable
from headrace.ops.program import (
    Embed,
    Experts,
    Linear,
    Logits,
    Norm,
    Program,
    Projection,
    SelectRows,
)
from headrace.ops.weights import DenseWeight, GroupedWeight, Weight, WeightSource

PROMPT = 512
"""Tokens of the prefill that is measured."""

SHORT = 32


@dataclass(frozen=True, slots=True)
class Pace:
    """decode_seconds: one token of one sequence, after a short prompt. decode_bytes: the
    matrices it reads. prefill_seconds: a prompt of `prefill_tokens`, in one step.
    prefill_products: multiply-adds of its matrices; attention is not counted.
    """

    decode_seconds: float
    decode_bytes: int
    prefill_tokens: int
    prefill_seconds: float
    prefill_products: int


def measure_pace(
    program: Program, weights: WeightSource, *, threads: int, isa: str | None = None
) -> Pace:
    """Loads the program and runs it for about a second: the best of several steps, since
    others share the machine."""
    prompt = max(SHORT, min(PROMPT, program.context_length // 2))
    blocks = -(-2 * prompt // BLOCK_SIZE)
    limits = Limits(tokens=prompt, sequences=1, blocks=blocks, threads=threads)
    executable = CpuBackend(isa).load(program, weights, limits)
    if best_of(lambda: step(executable, 0, SHORT), most=1) > 0.1:
        prompt = SHORT  # a slow machine shall not take minutes
    prefill = best_of(lambda: step(executable, 0, prompt), most=4)
    decode = best_of(lambda: step(executable, SHORT, 1), most=100)
    return Pace(
        decode_seconds=decode,
        decode_bytes=_decode_bytes(program, executable.matrix_bytes),
        prefill_tokens=prompt,
        prefill_seconds=prefill,
        prefill_products=_products(program, prompt),
    )


def step(executable: CpuExecutable, position: int, count: int) -> None:
    """`count` tokens of one sequence from `position` on, and a greedy token after the last."""
    end = position + count
    executable.launch(
        Batch(
            tokens=np.arange(count, dtype=np.int32) % 97,
            positions=np.arange(position, end, dtype=np.int32),
            starts=np.array([0, count], np.int32),
            block_tables=np.arange(-(-end // BLOCK_SIZE), dtype=np.int32)[None],
            logit_rows=np.array([count - 1], np.int32),
        )
    )
    executable.sample(greedy(1))


def greedy(rows: int) -> Sampling:
    floats: NDArray[np.float32] = np.zeros(rows, np.float32)
    ids: NDArray[np.int32] = np.zeros(rows, np.int32)
    return Sampling(floats, ids, floats + 1, floats, floats.astype(np.float64), ids - 1)


def best_of(body: Callable[[], None], *, most: int, budget: float = 0.5) -> float:
    """Seconds of the quickest of up to `most` calls, no more than `budget` seconds of them;
    a first call is not counted."""
    body()
    best, end = float("inf"), time.perf_counter() + budget
    for _ in range(most):
        start = time.perf_counter()
        body()
        best = min(best, time.perf_counter() - start)
        if time.perf_counter() > end:
            break
    return best


def _decode_bytes(program: Program, matrix_bytes: Mapping[str, int]) -> int:
    """What the matrices that one row is multiplied with take; of experts, those a row goes to."""
    total = 0
    for op in program.ops:
        match op:
            case Linear():
                total += sum(matrix_bytes[projection.weight] for projection in op.projections)
            case Logits():
                total += matrix_bytes[op.weight]
            case Experts():
                names = [name for e in op.experts for name in (e.gate, e.up, e.down)]
                share = used_experts(program, op) / len(op.experts)
                total += round(share * sum(matrix_bytes[name] for name in names))
            case _:
                pass
    return total


def _products(program: Program, tokens: int) -> int:
    width, total = program.buffers, 0
    for op in program.ops:
        match op:
            case Linear():
                total += tokens * sum(width[op.x] * width[p.out] for p in op.projections)
            case Logits():
                total += width[op.x] * program.vocab_size  # of the last token only
            case Experts():
                one = op.width * (2 * width[op.x] + width[op.out])
                total += tokens * used_experts(program, op) * one
            case _:
                pass
    return total


class StackWeights:
    """Random 4-bit weights for `stack`; the same matrix under every name, packed anew each."""

    def __init__(self, width: int, vocabulary: int) -> None:
        random = np.random.default_rng(0)
        self._width = width
        self._matrices = {
            rows: GroupedWeight(
                4,
                32,
                random.integers(0, 16, (rows, width), np.uint8),
                np.full((rows, width // 32), 0.01, np.float32),
                zero=8,
            )
            for rows in (width, vocabulary)
        }

    def load(self, name: str) -> Weight:
        if name == "norm":
            return DenseWeight(np.ones(self._width, np.float32))
        return self._matrices[max(self._matrices) if name == "vocabulary" else self._width]


def stack(
    layers: int = 64, width: int = 1024, vocabulary: int = 8192
) -> tuple[Program, WeightSource]:
    """A program of 4-bit matrices and nothing else, 40 MiB of them: a stand-in for a model."""
    ops: list[Embed | Norm | Linear | SelectRows | Logits] = [Embed("x0", "vocabulary")]
    for layer in range(layers):
        source, target = f"x{layer % 2}", f"x{1 - layer % 2}"
        ops.append(Norm(source, source, "norm", 1e-6))
        ops.append(Linear(source, (Projection(target, f"matrix.{layer}"),)))
    last = f"x{layers % 2}"
    ops += [SelectRows("selected", last), Logits("selected", "vocabulary")]
    program = Program(
        ops=tuple(ops),
        buffers=dict.fromkeys(("x0", "x1", "selected"), width),
        layers=1,
        heads=1,
        kv_heads=1,
        head_dim=64,
        vocab_size=vocabulary,
        context_length=2 * PROMPT,
    )
    return program, StackWeights(width, vocabulary)
