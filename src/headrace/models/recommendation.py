"""Which models of the catalogue a machine can serve, and how fast they will be there.

The estimate is a roofline (Williams et al., 2009): a token of an answer takes at least the time in
which the weights it needs are read from memory, and a prompt at least the time in which its
products are computed. EFFICIENCY is the part of that speed which the engine reaches.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.models.entry import ModelEntry

OVERHEAD_BYTES = 600 << 20
"""Of the service beside weights and KV cache: two processes, tokenizer tables, activations."""

KV_BYTES_PER_ELEMENT = 3.2
"""A key in 16 bits, a value in 8, and their scales."""

QUANTISED_BYTES_PER_PARAMETER = 1.0625
"""Of a checkpoint in 16-bit floats that `--quantization w8` makes smaller."""

EFFICIENCY = 0.7
"""The part of the machine's speed that the engine reaches, in round figures. `headrace doctor`
measures it for an installed model."""


@dataclass(frozen=True, slots=True)
class Machine:
    """memory: free bytes. bytes_per_second: read from memory. products_per_second: 8-bit
    multiply-adds of the matrix kernel. All with every compute thread at work."""

    memory: int
    bytes_per_second: float
    products_per_second: float


@dataclass(frozen=True, slots=True)
class Recommendation:
    """memory: bytes it takes with one sequence of `context` tokens. fits: whether they are free.
    tokens_per_second: of one answer. prompt_tokens_per_second: of one prompt. quantization:
    what to serve it with, None for as its file is."""

    entry: ModelEntry
    memory: int
    context: int
    fits: bool
    tokens_per_second: float
    prompt_tokens_per_second: float
    quantization: str | None


def recommend(
    entries: Iterable[ModelEntry], machine: Machine, context: int
) -> list[Recommendation]:
    """Those entries that tell their sizes: what fits first, larger before smaller.

    context: tokens of the longest sequence, at most each model's own.
    """
    found = [
        _estimated(entry, machine, min(context, entry.context or context))
        for entry in entries
        if entry.size and entry.parameters
    ]
    return sorted(found, key=lambda each: (not each.fits, -(each.entry.parameters or 0)))


def memory_needed(entry: ModelEntry, context: int) -> int | None:
    """Bytes that a model takes with one sequence of so many tokens, or of its own context if that
    is less. Files of floats count as quantised. None for an entry that does not tell its sizes."""
    if not (entry.size and entry.parameters):
        return None
    tokens = min(context, entry.context or context)
    elements = (entry.layers or 0) * (entry.kv_heads or 0) * (entry.head_size or 0)
    return round(_weights(entry) + elements * KV_BYTES_PER_ELEMENT * tokens + OVERHEAD_BYTES)


def _quantization(entry: ModelEntry) -> str | None:
    """What to serve a model with: w8 if its files are floats of 16 bits."""
    floats = (entry.size or 0) >= 1.9 * (entry.parameters or 0)
    return "w8" if floats else None


def _weights(entry: ModelEntry) -> float:
    """Bytes of the weights as they are served."""
    assert entry.size and entry.parameters
    if _quantization(entry):
        return QUANTISED_BYTES_PER_PARAMETER * entry.parameters
    return entry.size


def _estimated(entry: ModelEntry, machine: Machine, context: int) -> Recommendation:
    memory = memory_needed(entry, context)
    assert memory and entry.parameters
    active = (entry.active_parameters or entry.parameters) / entry.parameters
    return Recommendation(
        entry=entry,
        memory=memory,
        context=context,
        fits=memory <= machine.memory,
        tokens_per_second=EFFICIENCY * machine.bytes_per_second / (_weights(entry) * active),
        prompt_tokens_per_second=(
            EFFICIENCY * machine.products_per_second / (entry.parameters * active)
        ),
        quantization=_quantization(entry),
    )
