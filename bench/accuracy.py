"""How far a backend's logits are from the float32 reference, on real text.

    python bench/accuracy.py --model smollm2.gguf
    python bench/accuracy.py --model m.gguf --text book.txt --llama-python ~/llama/bin/python
    python bench/accuracy.py --model m.gguf --isa avx512 avx2 scalar --format file W8 W4 BF16 F32
    python bench/accuracy.py --model m.gguf --format W8 W4 --against-file
    python bench/accuracy.py --model m.gguf --kv-cache int16 int8

The text is cut into sequences; at each of their positions the next token's distribution is
compared with the reference's, on the same dequantised weights: mean Kullback-Leibler
divergence KL(reference || other) in nats, and how often both have the same likeliest token.
--format converts the file's matrices at load, for reference and backend alike: to codes in
groups of 32 as `--quantization` does (W8, W4), bfloat16 or float32; with --against-file the
reference keeps the file's own, so that what the conversion loses counts, and the converted model
has its channels shuffled, for what came from 4 bits returns to them unharmed. --kv-cache
names what the cache holds keys in (the reference holds floats). --isa names
instruction sets: the first is measured, and the others must give its logits bit for bit.
--llama-python names an interpreter that has llama-cpp-python: llama.cpp then reads the same
file and the same ids and is held against the same reference.
"""

from __future__ import annotations

import argparse
import json
import os
import pydoc_data.topics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from headrace.models.model import Model, open_model
from headrace.models.quantisation import to_w4, to_w8
from headrace.ops.backend import BLOCK_SIZE, Backend, Batch, Executable, KvCache, Limits
from headrace.ops.checks import vocabulary_weights
from headrace.ops.cpu import CpuBackend, available_isas, best_isa
from headrace.ops.program import Embed, Experts, Linear, Logits, Norm
from headrace.ops.reference import ReferenceBackend
from headrace.ops.weights import DenseWeight, Weight
from headrace.text.tokenizer import Tokenizer

Floats = NDArray[np.float32]
Ids = NDArray[np.int32]
Order = NDArray[np.int64]

ROWS_AT_ONCE = 128
SAME_BITS = 256
"""Positions on which instruction sets are held against each other."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """mean_kl, p99_kl: nats a position; top1: share of positions with the same likeliest token."""

    engine: str
    format: str
    kv_cache: KvCache
    positions: int
    mean_kl: float
    p99_kl: float
    top1: float


class Comparison:
    """Collects positions of one engine against the reference."""

    def __init__(self, engine: str, format: str = "file", kv_cache: KvCache = "int16") -> None:
        self.engine, self.format, self.kv_cache = engine, format, kv_cache
        self._kl: list[NDArray[np.float64]] = []
        self._agree: list[NDArray[np.bool_]] = []

    def add(self, expected: Floats, found: Floats) -> None:
        """Logits of the same positions, float32 [positions, vocabulary] each."""
        for at in range(0, len(expected), ROWS_AT_ONCE):
            p, q = expected[at : at + ROWS_AT_ONCE], found[at : at + ROWS_AT_ONCE]
            log_p, log_q = log_softmax(p), log_softmax(q)
            self._kl.append((np.exp(log_p) * (log_p - log_q)).sum(axis=1, dtype=np.float64))
            self._agree.append(p.argmax(axis=1) == q.argmax(axis=1))

    def result(self) -> Accuracy:
        kl, agree = np.concatenate(self._kl), np.concatenate(self._agree)
        return Accuracy(
            engine=self.engine,
            format=self.format,
            kv_cache=self.kv_cache,
            positions=len(kl),
            mean_kl=float(kl.mean()),
            p99_kl=float(np.quantile(kl, 0.99)),
            top1=float(agree.mean()),
        )


def log_softmax(logits: Floats) -> Floats:
    shifted = logits - logits.max(axis=1, keepdims=True)
    normed: Floats = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return normed


def standard_text() -> str:
    """English prose every machine has: Python's own language reference."""
    return "\n\n".join(pydoc_data.topics.topics.values())


def cut(text: str, tokenizer: Tokenizer, positions: int, length: int) -> list[Ids]:
    """At least `positions` tokens in sequences of `length`, each begun as the model wants.

    Raises ValueError if the text is too short.
    """
    bos = [tokenizer.bos_id] if tokenizer.add_bos and tokenizer.bos_id is not None else []
    body = length - len(bos)
    count = -(-positions // length)
    ids = tokenizer.encode(text[: 16 * positions])
    if len(ids) < count * body:
        raise ValueError(f"the text has {len(ids)} tokens; {count * body} are needed")
    return [np.array(bos + ids[i * body : (i + 1) * body], np.int32) for i in range(count)]


class Converted:
    """A model's weights with every matrix in another format, converted once; vectors stay as they
    are."""

    def __init__(self, model: Model, format: str) -> None:
        self._source, self._convert = model.weights, CONVERSIONS[format]
        # As `--quantization w4` leaves them.
        self._eight_bits = vocabulary_weights(model.program) if format == "W4" else frozenset()
        self._converted: dict[str, Weight] = {}

    def load(self, name: str) -> Weight:
        if name not in self._converted:
            self._converted[name] = self._convert_one(name)
        return self._converted[name]

    def _convert_one(self, name: str) -> Weight:
        weight = self._source.load(name)
        values = weight.values if isinstance(weight, DenseWeight) else weight.dequantise()
        if values.ndim == 1:
            return weight
        return to_w8(values) if name in self._eight_bits else self._convert(values)


class Shuffled:
    """A source's weights with the channels between operations in another order: the same model,
    but other weights share a group."""

    def __init__(self, model: Model) -> None:
        self._source = model.weights
        random = np.random.default_rng(0)
        program = model.program
        stream = random.permutation(program.buffers["x"])
        inner = random.permutation(program.buffers["gate"])
        head = random.permutation(program.head_dim)
        order = dict.fromkeys(("x", "h", "y", "last"), stream) | {"gate": inner, "up": inner}
        for name, heads in (("v", program.kv_heads), ("a", program.heads)):
            order[name] = (np.arange(heads)[:, None] * program.head_dim + head).ravel()
        self._columns: dict[str, Order] = {}
        self._rows: dict[str, Order] = {}
        for op in program.ops:
            match op:
                case Embed():
                    self._columns[op.weight] = order[op.out]
                case Norm() if op.x in order:  # else of a head, whose rope knows its order
                    self._columns[op.weight] = order[op.x]
                case Linear():
                    for projection in op.projections:
                        self._columns[projection.weight] = order[op.x]
                        if projection.out in order:
                            self._rows[projection.weight] = order[projection.out]
                            if projection.bias is not None:
                                self._columns[projection.bias] = order[projection.out]
                case Logits():
                    self._columns[op.weight] = order[op.x]
                case Experts():
                    raise ValueError("mixtures of experts cannot be shuffled")
                case _:
                    pass

    def load(self, name: str) -> Weight:
        weight = self._source.load(name)
        values = weight.values if isinstance(weight, DenseWeight) else weight.dequantise()
        if name in self._rows:
            values = values[self._rows[name]]
        if name in self._columns:
            values = values[..., self._columns[name]]
        return DenseWeight(np.ascontiguousarray(values))


def to_bf16(values: Floats) -> Weight:
    """Rounded to nearest, ties to even."""
    bits = values.view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
    return DenseWeight((rounded & np.uint32(0xFFFF0000)).view(np.float32))


CONVERSIONS: dict[str, Callable[[Floats], Weight]] = {
    "W8": to_w8,
    "W4": to_w4,
    "BF16": to_bf16,
    "F32": DenseWeight,
}
FORMATS = ("file", *CONVERSIONS)


def in_format(model: Model, format: str) -> Model:
    """The model with its matrices in that format; "file" leaves them."""
    if format == "file":
        return model
    return replace(model, weights=Converted(model, format))


def load(
    backend: Backend, model: Model, tokens: int, step: int, kv_cache: KvCache = "int16"
) -> Executable:
    """The model, ready for one sequence of up to `tokens` tokens in steps of up to `step`."""
    blocks = -(-tokens // BLOCK_SIZE)
    threads = os.cpu_count() or 1
    limits = Limits(step, sequences=1, blocks=blocks, threads=threads, kv_cache=kv_cache)
    return backend.load(model.program, model.weights, limits)


def logits_of(executable: Executable, tokens: Ids, step: int) -> Floats:
    """float32 [tokens, vocabulary] of one sequence, computed `step` tokens at a time."""
    blocks = np.arange(-(-len(tokens) // BLOCK_SIZE), dtype=np.int32)[None]
    parts = []
    for start in range(0, len(tokens), step):
        part = tokens[start : start + step]
        count = len(part)
        executable.launch(
            Batch(
                tokens=part,
                positions=np.arange(start, start + count, dtype=np.int32),
                starts=np.array([0, count], np.int32),
                block_tables=blocks,
                logit_rows=np.arange(count, dtype=np.int32),
            )
        )
        parts.append(executable.logits())
    return np.concatenate(parts)


def llama_logits(python: Path, model: Path, sequences: Sequence[Ids]) -> Iterator[Floats]:
    """llama.cpp's logits of each sequence, computed in another interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        ids, out = Path(folder) / "ids.npy", Path(folder) / "logits.npy"
        np.save(ids, np.stack(sequences))
        script = Path(__file__).with_name("llama_logits.py")
        subprocess.run([python, script, model, ids, out], check=True)
        yield from np.load(out, mmap_mode="r")


def measure(
    model: Model,
    sequences: Sequence[Ids],
    format: str = "file",
    isa: str | None = None,
    kv_caches: Sequence[KvCache] = ("int16",),
    reference: Model | None = None,
    llama: Iterator[Floats] | None = None,
) -> list[Accuracy]:
    """The backend with each kind of cache, and llama.cpp by its logits, against the reference on
    the same model or on another. sequences: all of one length."""
    length = len(sequences[0])
    engines: dict[Comparison, Iterator[Floats]] = {}
    for kv_cache in kv_caches:
        cpu = load(CpuBackend(isa), model, length, length, kv_cache)
        logits = map(partial(logits_of, cpu, step=length), sequences)
        engines[Comparison("headrace cpu", format, kv_cache)] = logits
    if llama is not None:
        engines[Comparison("llama.cpp", format)] = llama
    floats = load(ReferenceBackend(), reference or model, length, length)
    vocabulary = model.program.vocab_size
    for ids in sequences:
        expected = logits_of(floats, ids, length)[:, :vocabulary]
        for comparison, logits in engines.items():
            comparison.add(expected, next(logits)[:, :vocabulary])
    return [comparison.result() for comparison in engines]


def unlike(model: Model, ids: Ids, isas: Sequence[str], kv_cache: KvCache) -> list[str]:
    """Those of the instruction sets whose logits differ in any bit from the first one's."""
    found: list[bytes] = []
    for isa in isas:
        executable = load(CpuBackend(isa), model, len(ids), len(ids), kv_cache)
        found.append(logits_of(executable, ids, len(ids)).tobytes())
    return [isa for isa, logits in zip(isas, found, strict=True) if logits != found[0]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True, help="a GGUF file")
    parser.add_argument("--text", type=Path, help="UTF-8 text; Python's language reference if none")
    parser.add_argument("--positions", type=int, default=2048, help="positions to compare at least")
    parser.add_argument("--length", type=int, default=512, help="tokens of a sequence")
    parser.add_argument("--llama-python", type=Path, help="an interpreter with llama-cpp-python")
    parser.add_argument("--format", nargs="+", choices=FORMATS, default=["file"])
    parser.add_argument("--against-file", action="store_true", help="count the conversion's loss")
    parser.add_argument("--kv-cache", nargs="+", choices=get_args(KvCache), default=["int16"])
    parser.add_argument("--isa", nargs="+", choices=available_isas(), default=[best_isa()])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    args = parser.parse_args()
    text = args.text.read_text("utf-8") if args.text else standard_text()
    results = []
    opened = open_model(args.model)
    tokenizer = Tokenizer.from_gguf(opened.metadata)
    sequences = cut(text, tokenizer, args.positions, args.length)
    (few,) = cut(text, tokenizer, SAME_BITS, SAME_BITS)
    source = replace(opened, weights=Shuffled(opened)) if args.against_file else opened
    for format in args.format:
        model = in_format(source, format)
        llama = None
        if format == "file" and args.llama_python:
            llama = llama_logits(args.llama_python, args.model, sequences)
        reference = opened if args.against_file else model
        results += measure(model, sequences, format, args.isa[0], args.kv_cache, reference, llama)
        for kv_cache in args.kv_cache:
            if others := unlike(model, few, args.isa, kv_cache):
                sys.exit(f"{format}, {kv_cache}: {', '.join(others)} differ from {args.isa[0]}")
    if args.json:
        json.dump([asdict(result) for result in results], sys.stdout, indent=2)
        return
    print("| engine | weights | keys | positions | mean KL | p99 KL | top-1 agreement |")
    print("|---|---|---|---|---|---|---|")
    for result in results:
        print(
            f"| {result.engine} | {result.format} | {result.kv_cache} | {result.positions}"
            f" | {result.mean_kl:.6f}"
            f" | {result.p99_kl:.6f} | {100 * result.top1:.2f} % |"
        )
    if len(args.isa) > 1:
        print(f"\n{' = '.join(args.isa)}: the same bits on {SAME_BITS} positions of each format")


if __name__ == "__main__":
    main()
