"""Each kernel beside its floor on this machine.

    python bench/kernels.py [--isa avx2] [--threads 2] [--only linear attention] [--model m.gguf]

A floor is the greater of two times: the bytes a kernel must read at the measured speed of
memory, and the multiply-adds it must do at the measured rate of the instructions themselves.
Programs of one operation run through the public backend; matrices are so many that none of
them is in cache when its turn comes again. Prints a table and writes bench/out/kernels.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from headrace.models.catalogue import Catalogue
from headrace.models.model import open_model
from headrace.ops.backend import BLOCK_SIZE, Batch, Limits, Sampling, kv_block_bytes
from headrace.ops.cpu import CpuBackend, CpuExecutable, MachineSpeed, best_isa, measure_speed
from headrace.ops.pace import best_of, greedy
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
from headrace.settings import Settings

OUT = Path(__file__).parent / "out" / "kernels.json"
SHAPES = ((576, 576), (1536, 576), (576, 1536), (49152, 576), (896, 896), (4864, 896), (896, 4864))
"""Outputs and columns: SmolLM2-135M's matrices and Qwen2.5-0.5B's."""
FORMATS = ("W4", "W8", "BF16", "F32")
ROWS = (1, 4, 8, 12, 32, 128, 512)
STREAM = 96 << 20
"""Bytes of matrices that a pass goes through."""
HEADS = {"SmolLM2-135M": (9, 3, 64, 30), "Qwen2.5-0.5B": (14, 2, 64, 24)}
"""Heads, KV heads, width of a head, layers."""
CONTEXT = 320
VOCABULARY = 64


@dataclass(frozen=True, slots=True)
class Result:
    """seconds: of one call of the kernel; floor: what it takes at least, by what bounds it."""

    kernel: str
    what: str
    rows: int
    seconds: float
    floor: float
    bound: str

    @property
    def share(self) -> float:
        return self.floor / self.seconds


class Weights:
    """Random weights made as they are asked for: `shape` or `format shape copy` by name."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)
        self._made: tuple[str, Weight] = ("", DenseWeight(np.empty(0, np.float32)))

    def load(self, name: str) -> Weight:
        kind = name.rpartition("#")[0] or name
        if self._made[0] != kind:  # copies differ in place only
            self._made = (kind, self._make(*kind.split()))
        return self._made[1]

    def _make(self, kind: str, *sizes: str) -> Weight:
        shape = tuple(map(int, sizes))
        if kind in ("W4", "W8"):
            return self._grouped(4 if kind == "W4" else 8, *shape)
        if len(shape) == 1:
            return DenseWeight(np.ones(shape, np.float32))
        values = self._random.standard_normal(shape, np.float32)
        if kind == "BF16":
            values = (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
        return DenseWeight(values)

    def _grouped(self, bits: int, n: int, k: int) -> GroupedWeight:
        groups = (n, k // 32)
        codes = self._random.integers(0, 1 << bits, (n, k), np.uint8)
        scale = self._random.uniform(0.001, 0.01, groups).astype(np.float16).astype(np.float32)
        # As Q4_1 and Q8_0: minima of their own, or none.
        if bits == 4:
            minimum = (-8 * scale - np.float32(0.5)).astype(np.float16).astype(np.float32)
            return GroupedWeight(4, 32, codes, scale, minimum)
        return GroupedWeight(8, 32, codes, scale, zero=128)


def program(
    ops: Iterable[Op], buffers: dict[str, int], *, layers: int = 1, heads: int = 1,
    kv_heads: int = 1, head_dim: int = 64,
) -> Program:  # fmt: skip
    """The operations, and the smallest output matrix there may be."""
    tail = (Embed("tail", "F32 64 16"), SelectRows("last", "tail"), Logits("last", "F32 64 16"))
    return Program(
        ops=(*ops, *tail),
        buffers={**buffers, "tail": 16, "last": 16},
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        vocab_size=VOCABULARY,
        context_length=8192,
    )


class Bench:
    """Runs programs on one instruction set and number of threads."""

    def __init__(self, isa: str, threads: int) -> None:
        self.isa, self.threads = isa, threads
        self.memory = measure_speed(threads, isa)
        self.streams: dict[int, MachineSpeed] = {}

    def load(self, what: Program, tokens: int, sequences: int, context: int) -> CpuExecutable:
        blocks = sequences * blocks_of(context)
        limits = Limits(tokens=tokens, sequences=sequences, blocks=blocks, threads=self.threads)
        return CpuBackend(self.isa).load(what, Weights(), limits)

    def reading(self, size: int) -> float:
        """Seconds that reading takes of data which is read over and over."""
        near = 1 << max(size, 1 << 21).bit_length()
        if near not in self.streams:
            self.streams[near] = measure_speed(self.threads, self.isa, near)
        return size / self.streams[near].bytes_per_second

    def floor(self, reading: float, products: float, rate: float) -> tuple[float, str]:
        arithmetic = products / rate
        return max(reading, arithmetic), "memory" if reading > arithmetic else "arithmetic"


def blocks_of(context: int) -> int:
    return -(-context // BLOCK_SIZE)


def run(executable: CpuExecutable, sequences: int, context: int, first: int, count: int) -> None:
    """A step: `count` tokens at positions from `first` on, of each sequence of `context`."""
    tables = np.arange(sequences * blocks_of(context), dtype=np.int32).reshape(sequences, -1)
    executable.launch(
        Batch(
            tokens=np.arange(sequences * count, dtype=np.int32) % VOCABULARY,
            positions=np.tile(np.arange(first, first + count, dtype=np.int32), sequences),
            starts=np.arange(sequences + 1, dtype=np.int32) * count,
            block_tables=tables,
            logit_rows=np.array([0], np.int32),
        )
    )
    executable.logits()


def linear(bench: Bench) -> Iterator[Result]:
    for n, k in SHAPES:
        for format in FORMATS:
            size = {"W4": 0.625, "W8": 1.0625, "BF16": 2, "F32": 4}[format] * n * k
            copies = max(1, round(STREAM / size))
            names = [f"{format} {n} {k}#{copy}" for copy in range(copies)]
            ops: list[Op] = [Embed("x", f"F32 64 {k}")]
            ops += [Linear("x", (Projection("y", name),)) for name in names]
            executable = bench.load(program(ops, {"x": k, "y": n}), max(ROWS), 1, max(ROWS))
            held = sum(executable.matrix_bytes[name] for name in names)
            grouped = format.startswith("W")
            speed = bench.memory
            rate = speed.products_per_second if grouped else speed.floats_per_second
            for rows in ROWS:
                step = partial(run, executable, 1, max(ROWS), 0, rows)
                seconds = best_of(step, most=20, budget=0.3)
                floor, bound = bench.floor(bench.reading(held), rows * n * k * copies, rate)
                yield Result(
                    "linear", f"{format} {n}x{k}", rows, seconds / copies, floor / copies, bound
                )


PER_VALUE = 3.0
"""Products of bytes that a value of a head and a position cost: two for the word of its key."""


def attention(bench: Bench) -> Iterator[Result]:
    for name, (heads, kv_heads, head_dim, layers) in HEADS.items():
        q, kv = heads * head_dim, kv_heads * head_dim

        def made(
            attend: bool, sequences: int, tokens: int, context: int,
            q: int = q, kv: int = kv, shape: tuple[int, int, int, int] = HEADS[name],
        ) -> tuple[CpuExecutable, Program]:  # fmt: skip
            heads, kv_heads, head_dim, layers = shape
            rope = Rope(base=10000.0, dims=head_dim, interleaved=True)
            ops: list[Op] = [
                Embed("q", f"F32 64 {q}"), Embed("k", f"F32 64 {kv}"), Embed("v", f"F32 64 {kv}")
            ]  # fmt: skip
            for layer in range(layers):
                ops.append(RotaryKV("q", "k", "v", layer, rope))
                if attend:
                    ops.append(Attention("out", "q", layer, head_dim**-0.5))
            what = program(
                ops, {"q": q, "k": kv, "v": kv, "out": q},
                layers=layers, heads=heads, kv_heads=kv_heads, head_dim=head_dim,
            )  # fmt: skip
            return bench.load(what, tokens, sequences, context), what

        for sequences in (1, 8, 32):
            both = []
            for attend in (True, False):
                tokens = max(sequences, 64)
                executable, what = made(attend, sequences, tokens, CONTEXT)
                chunk = tokens // sequences
                for first in range(0, CONTEXT - 1, chunk):
                    count = min(chunk, CONTEXT - 1 - first)
                    run(executable, sequences, CONTEXT, first, count)
                step = partial(run, executable, sequences, CONTEXT, CONTEXT - 1, 1)
                both.append(best_of(step, most=50, budget=0.3))
            held = sequences * CONTEXT * kv_block_bytes(what, CpuBackend.kv_row_bytes, "int16")
            reading = bench.reading(held // BLOCK_SIZE)
            products = PER_VALUE * layers * sequences * heads * head_dim * CONTEXT
            floor, bound = bench.floor(reading, products, bench.memory.products_per_second)
            seconds = (both[0] - both[1]) / layers
            what_for = f"decode at {CONTEXT}, {name}"
            yield Result("attention", what_for, sequences, seconds, floor / layers, bound)
        for length in (512, 4096):
            both = []
            for attend in (True, False):
                executable, _ = made(attend, 1, 512, length)
                both.append(best_of(partial(prompt, executable, length), most=5, budget=1.0))
            products = PER_VALUE * layers * heads * head_dim * length * (length + 1) / 2
            floor, bound = bench.floor(0.0, products, bench.memory.products_per_second)
            seconds = (both[0] - both[1]) / layers
            yield Result("attention", f"prompt, {name}", length, seconds, floor / layers, bound)


def rows(bench: Bench) -> Iterator[Result]:
    """Operations on rows: bytes read and written at the speed of the second cache. Rows are
    gone through one by one, so shares above 100 % mean that they lay in the first.
    """
    repeats = 64
    rope = Rope(base=10000.0, dims=64, interleaved=True)
    vectors: list[Op] = [Embed("x", "F32 64 576")]
    kinds: dict[str, tuple[list[Op], int]] = {
        "norm": ([Norm("y", "x", "F32 576", 1e-6)], 3 * 576),
        "gate": ([Gate("h", "g", "u", "silu")], 3 * 1536),
        "rotary and KV write": ([RotaryKV("x", "k", "v", 0, rope)], 2 * 576 + 4 * 192),
    }
    for kind, (ops, floats) in kinds.items():
        feeds = {"g": 1536, "u": 1536, "k": 192, "v": 192}
        buffers = {"x": 576, "y": 576, "h": 1536, **feeds}
        embeds: list[Op] = [Embed(name, f"F32 64 {width}") for name, width in feeds.items()]
        for count in (1, 32, 512):
            both = []
            for times in (repeats, 0):
                ahead = [*vectors, *embeds]
                what = program([*ahead, *ops * times], buffers, heads=9, kv_heads=3)
                executable = bench.load(what, 512, 1, 512)
                step = partial(run, executable, 1, 512, 0, count)
                both.append(best_of(step, most=50, budget=0.2))
            floor = bench.reading(4 * floats * count)
            seconds = max(both[0] - both[1], 1e-9) / repeats
            yield Result("rows", kind, count, seconds, floor, "cache")


def sampling(bench: Bench, model: Path) -> Iterator[Result]:
    """Draws for 32 rows of the model's own logits; the floor column is 5 % of their step."""
    opened = open_model(model)
    count, blocks = 32, blocks_of(CONTEXT)
    limits = Limits(tokens=512, sequences=count, blocks=count * blocks, threads=bench.threads)
    executable = CpuBackend(bench.isa).load(opened.program, opened.weights, limits)
    tables = np.arange(count * blocks, dtype=np.int32).reshape(count, blocks)
    random = np.random.default_rng(0)

    def launch(first: int, tokens: int) -> None:
        executable.launch(
            Batch(
                tokens=random.integers(0, VOCABULARY, count * tokens, np.int32),
                positions=np.tile(np.arange(first, first + tokens, dtype=np.int32), count),
                starts=np.arange(count + 1, dtype=np.int32) * tokens,
                block_tables=tables,
                logit_rows=np.arange(count, dtype=np.int32) * tokens,
            )
        )
        executable.logits()

    for first in range(0, CONTEXT - 16, 16):
        launch(first, 16)
    step = best_of(partial(launch, CONTEXT - 1, 1), most=20)
    plain = replace(greedy(count), draw=np.full(count, 0.5))
    warm = plain.temperature + np.float32(0.8)
    ways = {
        "greedy": plain,
        "temperature 0.8, top-p 0.95": replace(
            plain, temperature=warm, top_p=plain.top_p * np.float32(0.95)
        ),
        "temperature 0.8": replace(plain, temperature=warm),
        "greedy, 5 logprobs": replace(plain, top_logprobs=plain.top_logprobs + 6),
    }
    for name, how in ways.items():
        seconds = best_of(partial(draw, executable, how), most=50, budget=0.3)
        share = f"{name}: {seconds / step:.1%} of a step of {1e3 * step:.1f} ms"
        yield Result("sampling", share, count, seconds, 0.05 * step, "5 % of a step")


def prompt(executable: CpuExecutable, length: int) -> None:
    for first in range(0, length, 512):
        run(executable, 1, length, first, 512)


def draw(executable: CpuExecutable, how: Sampling) -> None:
    executable.sample(how)


def default_model() -> Path:
    """The installed model that a service without settings would serve."""
    settings = Settings()
    version = Catalogue(settings.models_dir).installed(settings.model[0])
    if version is None:
        sys.exit(f"{settings.model[0]} is not installed: headrace models pull, or --model FILE")
    return version.path


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = ("linear", "attention", "rows", "sampling")
    parser.add_argument("--only", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("--isa", default=best_isa())
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--model", type=Path, help="whose batch-32 step sampling is held against")
    args = parser.parse_args()
    bench = Bench(args.isa, args.threads)
    speed = bench.memory
    print(
        f"{args.isa}, {args.threads} threads: {speed.bytes_per_second / 1e9:.1f} GB/s,"
        f" {speed.products_per_second / 1e9:.0f} G int8 and"
        f" {speed.floats_per_second / 1e9:.0f} G float32 multiply-adds/s\n"
    )
    sources: dict[str, Callable[[], Iterator[Result]]] = {
        "linear": lambda: linear(bench),
        "attention": lambda: attention(bench),
        "rows": lambda: rows(bench),
        "sampling": lambda: sampling(bench, args.model or default_model()),
    }
    print("| kernel | what | rows | µs | floor µs | of the floor | bound by |")
    print("|---|---|---|---|---|---|---|")
    results = []
    for kind in args.only:
        for result in sources[kind]():
            results.append(result)
            print(
                f"| {result.kernel} | {result.what} | {result.rows} | {1e6 * result.seconds:.1f}"
                f" | {1e6 * result.floor:.1f} | {result.share:.0%} | {result.bound} |",
                flush=True,
            )
    OUT.parent.mkdir(exist_ok=True)
    report = {"machine": asdict(speed), "results": [asdict(result) for result in results]}
    OUT.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
