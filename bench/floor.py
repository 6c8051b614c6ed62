"""The machine's floor: how fast a workload could be at best on the measured machine.

A step reads weights and KV cache from memory and multiplies; it takes at least the longer of
the two times, as if each ran at the machine's measured speed and nothing else cost anything:

    step = max(bytes / bandwidth, products / rate)

bytes: every matrix as the file stores it, once, and each sequence's keys and values, in a
prefix that all share once for all. products: one int8 multiply-add for every weight and token,
logits only of the rows that are sampled, and attention's two products with every key and value
seen, which cost as many int8 products as a KV value has bytes. Norms, rotation, activations,
embedding, sampling, text and HTTP count as nothing.

Prompts are computed first, each prompt a step of its own but for the shared prefix, which is
computed once; then all streams decode in step, at the mean length of a sequence.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path

from headrace.load.workload import Workload
from headrace.models.gguf import read_gguf
from headrace.models.model import open_model
from headrace.ops.cpu import MachineSpeed
from headrace.ops.program import Attention, Experts, Linear, Logits


@dataclass(frozen=True, slots=True)
class ModelCost:
    """What a model costs. Matrices of the layers, and the output matrix apart: products per
    token (= weights) and bytes in the file. attention: the window of each layer (None: all).
    """

    products: int
    bytes: int
    output_products: int
    output_bytes: int
    heads: int
    kv_heads: int
    head_dim: int
    attention: tuple[int | None, ...]
    kv_value_bytes: int = 2

    def kv_bytes(self, length: float) -> float:
        """Bytes of keys and values that a token at the end of `length` tokens reads."""
        seen = sum(min(length, window or length) for window in self.attention)
        return 2 * self.kv_heads * self.head_dim * self.kv_value_bytes * seen

    def attention_products(self, length: float) -> float:
        """int8 products of the same token's attention."""
        seen = sum(min(length, window or length) for window in self.attention)
        return 2 * self.heads * self.head_dim * self.kv_value_bytes * seen


def model_cost(gguf: Path) -> ModelCost:
    """Raises ModelFileError if the file is not a model Headrace can open, ValueError if it is a
    mixture of experts."""
    program, tensors = open_model(gguf).program, read_gguf(gguf).tensors
    if any(isinstance(op, Experts) for op in program.ops):
        raise ValueError("what a mixture of experts reads depends on its rows; it has no one floor")
    layers = [
        tensors[projection.weight]
        for op in program.ops
        if isinstance(op, Linear)
        for projection in op.projections
    ]
    output = [tensors[op.weight] for op in program.ops if isinstance(op, Logits)]
    return ModelCost(
        products=sum(tensor.shape[0] * tensor.shape[1] for tensor in layers),
        bytes=sum(tensor.size for tensor in layers),
        output_products=sum(tensor.shape[0] * tensor.shape[1] for tensor in output),
        output_bytes=sum(tensor.size for tensor in output),
        heads=program.heads,
        kv_heads=program.kv_heads,
        head_dim=program.head_dim,
        attention=tuple(op.window for op in program.ops if isinstance(op, Attention)),
    )


def fastest(one: MachineSpeed, other: MachineSpeed) -> MachineSpeed:
    """The better of each speed over two measurements of the same machine."""
    speeds = [field.name for field in fields(MachineSpeed) if field.name.endswith("_per_second")]
    best = {name: max(getattr(one, name), getattr(other, name)) for name in speeds}
    return replace(one, **best)


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """The best a workload could do; tokens per second and milliseconds."""

    output_rate: float
    ttft_p50: float
    itl_p50: float


def prefill_seconds(model: ModelCost, machine: MachineSpeed, tokens: int, after: int = 0) -> float:
    """`tokens` of a prompt whose first `after` are in the cache; logits of the last one."""
    middle = after + (tokens + 1) / 2
    products = tokens * (model.products + model.attention_products(middle))
    products += model.output_products
    moved = model.bytes + model.output_bytes + model.kv_bytes(after)
    return _seconds(machine, moved, products)


def decode_seconds(
    model: ModelCost, machine: MachineSpeed, streams: int, length: float, shared: int = 0
) -> float:
    """One token for each of `streams` sequences of `length`, the first `shared` in common."""
    products = model.products + model.output_products + model.attention_products(length)
    own = max(0.0, model.kv_bytes(length) - model.kv_bytes(shared))
    moved = model.bytes + model.output_bytes + model.kv_bytes(shared) + streams * own
    return _seconds(machine, moved, streams * products)


def floor(model: ModelCost, machine: MachineSpeed, workload: Workload) -> Floor:
    """Raises ValueError for a chat, whose lengths are not known beforehand."""
    if workload.question:
        raise ValueError("the length of a chat is not known beforehand")
    prefill = prefill_seconds(model, machine, workload.prompt, workload.shared)
    length = workload.shared + workload.prompt + workload.output / 2
    step = decode_seconds(model, machine, workload.streams, length, workload.shared)
    steps = workload.requests / workload.streams * (workload.output - 1)
    seconds = workload.requests * prefill + steps * step
    if workload.shared:
        seconds += prefill_seconds(model, machine, workload.shared)
    return Floor(
        output_rate=workload.requests * workload.output / seconds,
        ttft_p50=1000 * prefill,
        itl_p50=1000 * step,
    )


def _seconds(machine: MachineSpeed, moved: float, products: float) -> float:
    return max(moved / machine.bytes_per_second, products / machine.products_per_second)
