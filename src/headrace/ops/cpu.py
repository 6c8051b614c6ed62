"""The CPU backend: native kernels behind the same program the reference interprets.

A program is handed to native code once, at load; a step is then one call that wakes the
compute threads. Results are the same bits on every instruction set, for any number of
threads and whatever else is in the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.ops import _native
from headrace.ops.backend import (
    Adjustments,
    Batch,
    KvCache,
    Limits,
    Masks,
    NonFiniteLogits,
    Prompt,
    Sampled,
    Sampling,
    Slice,
)
from headrace.ops.checks import load_weights
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
    RotaryKV,
    Route,
    SelectRows,
)
from headrace.ops.weights import DenseWeight, Multiples, Numbers, Weight, WeightSource

KEY_BYTES: dict[KvCache, int] = {"int16": 2, "int8": 1}
"""What a key's code takes in the cache."""


def available_isas() -> list[str]:
    """Instruction sets this machine and build can use, best first, e.g. avx512, avx2, scalar."""
    names: list[str] = _native.available_isas()
    return names


def best_isa() -> str:
    return available_isas()[0]


@dataclass(frozen=True, slots=True)
class MachineSpeed:
    """What the machine can do at most: bytes read a second from memory, and multiply-adds a
    second of the instructions themselves, 8-bit integer (`products`) and float32 (`floats`).
    kernel_products_per_second is what the matrix kernel makes of the former on cached data.
    """

    isa: str
    threads: int
    bytes_per_second: float
    products_per_second: float
    kernel_products_per_second: float
    floats_per_second: float


STREAM_BYTES = 256 << 20
"""Read to measure a memory's speed: beyond the caches of most machines."""


def measure_speed(
    threads: int, isa: str | None = None, stream_bytes: int = STREAM_BYTES
) -> MachineSpeed:
    """Takes about a second, and as much memory as it streams."""
    isa = isa or best_isa()
    machine = _native.Machine(isa, threads)
    return MachineSpeed(
        isa=isa,
        threads=threads,
        bytes_per_second=machine.bandwidth(stream_bytes),
        products_per_second=machine.peak_products(),
        kernel_products_per_second=machine.products(),
        floats_per_second=machine.peak_floats(),
    )


class CpuBackend:
    """Backend "cpu". isa: the instruction set to use (None: the machine's best).

    Raises ValueError if the machine has no such instruction set.
    """

    name = "cpu"

    def __init__(self, isa: str | None = None) -> None:
        self.isa = isa or best_isa()
        if self.isa not in available_isas():
            raise ValueError(
                f"no instruction set {self.isa!r} here; there is {', '.join(available_isas())}"
            )

    @staticmethod
    def kv_row_bytes(head_dim: int, kv_cache: KvCache) -> int:
        """Codes of key and value, and a float scale for each."""
        size: int = _native.kv_row_bytes(head_dim, KEY_BYTES[kv_cache])
        return size

    def load(self, program: Program, weights: WeightSource, limits: Limits) -> CpuExecutable:
        machine = _native.Machine(self.isa, limits.threads)
        lowering = _Lowering(machine, program, weights, limits)
        return CpuExecutable(lowering.executor(), self.isa, lowering.matrix_bytes())


class CpuExecutable:
    """A loaded program. `launch` returns while the other compute threads work, if there are any;
    `sample` works along until the step is done. Native code checks batches and sampling as
    ops/checks.py does, in a fraction of the time.

    matrix_bytes: what each matrix takes in memory, by its name.
    """

    def __init__(
        self, executor: _native.Executor, isa: str, matrix_bytes: Mapping[str, int]
    ) -> None:
        self._executor = executor
        self._launched = False
        self.isa = isa
        self.matrix_bytes = matrix_bytes

    def begin(self, prompt: Prompt) -> None:
        self._executor.begin(prompt.tokens, prompt.position, prompt.blocks)

    def launch(self, batch: Batch, slice_seconds: float = 0.0) -> None:
        self._executor.launch(
            batch.tokens,
            batch.positions,
            batch.starts,
            batch.block_tables,
            batch.logit_rows,
            slice_seconds,
        )
        self._launched = True

    def slice(self) -> Slice:
        return Slice(*self._executor.slice())

    def logits(self) -> NDArray[np.float32]:
        self._expect_step()
        self._executor.wait()
        logits: NDArray[np.float32] = self._executor.logits()
        return logits

    def sample(self, sampling: Sampling) -> Sampled:
        self._expect_step()
        # Native code waits, so that the arguments are on its side before the step is over.
        tokens, logprobs, top_ids, top_logprobs, broken, stuck = self._executor.sample(
            sampling.temperature,
            sampling.top_k,
            sampling.top_p,
            sampling.min_p,
            sampling.draw,
            sampling.top_logprobs,
            _adjustments(sampling.adjustments),
            _masks(sampling.masks),
        )
        if stuck:
            raise ValueError(f"logits row {stuck[0]}: no token is allowed")
        sampled = Sampled(tokens, logprobs, top_ids, top_logprobs)
        if broken:
            raise NonFiniteLogits(broken, sampled)
        return sampled

    def _expect_step(self) -> None:
        if not self._launched:
            raise RuntimeError("no step was launched")


def _adjustments(changes: Adjustments | None) -> _native.Adjustments | None:
    if changes is None:
        return None
    return _native.Adjustments(changes.row, changes.token, changes.divide, changes.add)


def _masks(masks: Masks | None) -> _native.Masks | None:
    return None if masks is None else _native.Masks(masks.row, masks.allowed)


def pack(machine: _native.Machine, weight: Weight) -> _native.Matrix:
    """A matrix as the machine's kernels read it."""
    if isinstance(weight, DenseWeight):
        return machine.dense(weight.values)
    return machine.grouped(
        weight.bits,
        weight.group,
        weight.codes,
        _numbers(weight.scale),
        None if weight.minimum is None else _numbers(weight.minimum),
        weight.zero,
    )


def _numbers(numbers: Numbers) -> _native.Numbers:
    if isinstance(numbers, Multiples):
        return _native.Numbers(numbers.unit.view(np.uint16), numbers.count)
    return _native.Numbers(numbers)


class _Lowering:
    """Hands a program's weights and operations to native code."""

    def __init__(
        self, machine: _native.Machine, program: Program, weights: WeightSource, limits: Limits
    ) -> None:
        self._matrices: dict[str, _native.Matrix] = {}
        self._vectors: dict[str, NDArray[np.float32]] = {}
        self._buffers = {name: index for index, name in enumerate(program.buffers)}
        for name, weight in load_weights(program, weights):
            if isinstance(weight, DenseWeight) and weight.values.ndim == 1:
                self._vectors[name] = np.ascontiguousarray(weight.values)
            else:
                self._matrices[name] = pack(machine, weight)
        self._builder = _native.Builder(
            machine,
            tokens=limits.tokens,
            sequences=limits.sequences,
            blocks=limits.blocks,
            layers=program.layers,
            heads=program.heads,
            kv_heads=program.kv_heads,
            head_dim=program.head_dim,
            key_bytes=KEY_BYTES[limits.kv_cache],
            vocabulary=program.vocab_size,
            context=program.context_length,
            prefill_tokens=limits.chunk,
            widths=list(program.buffers.values()),
        )
        for op in program.ops:
            self._add(op)

    def matrix_bytes(self) -> dict[str, int]:
        return {name: matrix.bytes for name, matrix in self._matrices.items()}

    def executor(self) -> _native.Executor:
        return self._builder.build()

    def _add(self, op: Op) -> None:
        builder, buffer = self._builder, self._buffers
        match op:
            case Embed():
                builder.embed(buffer[op.out], self._matrices[op.weight], op.scale)
            case Norm():
                weight = self._vectors[op.weight]
                builder.norm(buffer[op.out], buffer[op.x], weight, op.eps, op.groups)
            case Linear():
                builder.linear(
                    buffer[op.x],
                    [buffer[p.out] for p in op.projections],
                    [self._matrices[p.weight] for p in op.projections],
                    [None if p.bias is None else self._vectors[p.bias] for p in op.projections],
                    [p.accumulate for p in op.projections],
                )
            case RotaryKV():
                self._add_rotary(op)
            case Attention():
                builder.attention(
                    buffer[op.out],
                    buffer[op.q],
                    op.layer,
                    op.scale,
                    op.window or 0,
                    op.softcap or 0.0,
                )
            case Gate():
                gelu = op.activation == "gelu"
                builder.gate(buffer[op.out], buffer[op.gate], buffer[op.up], gelu)
            case Route():
                builder.route(buffer[op.out], buffer[op.x], op.used, op.normalise)
            case Experts():
                builder.experts(
                    buffer[op.out],
                    buffer[op.x],
                    buffer[op.routes],
                    [self._matrices[expert.gate] for expert in op.experts],
                    [self._matrices[expert.up] for expert in op.experts],
                    [self._matrices[expert.down] for expert in op.experts],
                    op.activation == "gelu",
                    op.accumulate,
                )
            case Add():
                builder.add(buffer[op.x], buffer[op.y])
            case SelectRows():
                builder.select_rows(buffer[op.out], buffer[op.x])
            case Logits():
                builder.logits(buffer[op.x], self._matrices[op.weight], op.softcap or 0.0)

    def _add_rotary(self, op: RotaryKV) -> None:
        places = (self._buffers[op.q], self._buffers[op.k], self._buffers[op.v], op.layer)
        rope = op.rope
        if rope is None:
            self._builder.rotary_kv(*places)
            return
        factors = None if rope.factors is None else self._vectors[rope.factors]
        if rope.divisors:
            divisors = np.array(rope.divisors, np.float32)
            factors = divisors if factors is None else divisors * factors
        self._builder.rotary_kv(
            *places, rope.base, rope.dims, rope.interleaved, factors, rope.scale, rope.magnitude
        )
