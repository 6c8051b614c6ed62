"""How much a worker holds, from its configuration and its model.

The serving process and the worker compute it alike, so that what can never fit is refused
before there is a worker to ask.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.engine.blocks import blocks_for
from headrace.fleet.config import WorkerConfig
from headrace.fleet.errors import DoesNotFit
from headrace.fleet.memory import Memory, memory_of
from headrace.models.model import Model
from headrace.ops.backend import BLOCK_SIZE, KvCache, kv_block_bytes
from headrace.units import GIB, MIB

DEFAULT_KV = GIB
"""Bytes of KV cache where neither it nor the memory is set."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """blocks: KV blocks of the cache. context_length: tokens a sequence may have, prompt and
    completion together: the model's or less, and never more than the cache holds. memory: bytes
    that the worker's process holds at most."""

    blocks: int
    context_length: int
    memory: int


def sizes_for(
    config: WorkerConfig,
    model: Model,
    kv_row_bytes: Callable[[int, KvCache], int],
    draft: Model | None = None,
) -> Sizes:
    """As many blocks as the memory allows, but no more than all sequences can ever fill.

    kv_memory alone is the cache's own size; memory is what the whole process may hold, and the
    cache gets what the rest leaves. With both, kv_memory is kept if it fits.

    A draft model keeps its keys and values under the same blocks, which then count for both.

    Raises DoesNotFit where the configuration does not fit the model.
    """
    asked = config.context_length or model.context_length
    if asked > model.context_length:
        raise DoesNotFit(
            f"context_length is {asked}, but {config.model} was made for"
            f" {model.context_length} tokens"
        )
    block = kv_block_bytes(model.program, kv_row_bytes, config.kv_cache)
    if draft is not None:
        block += kv_block_bytes(draft.program, kv_row_bytes, config.kv_cache)
        asked = _within(draft, asked, config)
    held = memory_of(config, model, draft)
    kv_memory = config.kv_memory
    if kv_memory is None:
        # At least a block, so that a budget that is too small is told what would be enough.
        budget = config.memory
        kv_memory = DEFAULT_KV if budget is None else max(held.kv_within(budget), block)
    if kv_memory < block:
        raise DoesNotFit(
            f"kv_memory is {kv_memory} bytes, but one KV block of {config.model} takes {block}"
        )
    blocks = min(kv_memory // block, config.max_sequences * blocks_for(asked))
    peak = held.peak(blocks * block)
    if config.memory is not None and peak > config.memory:
        raise DoesNotFit(_too_small(config, held, blocks * block))
    return Sizes(blocks, min(asked, blocks * BLOCK_SIZE), peak)


def _within(draft: Model, asked: int, config: WorkerConfig) -> int:
    """The context length, if the draft model can follow. Raises DoesNotFit if it can't, unless
    nobody asked for that much."""
    if config.context_length and asked > draft.context_length:
        raise DoesNotFit(
            f"context_length is {asked}, but the draft model was made for"
            f" {draft.context_length} tokens"
        )
    return min(asked, draft.context_length)


def _too_small(config: WorkerConfig, held: Memory, kv: int) -> str:
    parts = {
        "weights": held.weights,
        "buffers of a step": held.buffers,
        "reserve": held.reserve,
        "kv_memory" if config.kv_memory else "one block of KV cache": kv,
    }
    listed = ", ".join(f"{name} {mebibytes(size)}" for name, size in parts.items())
    return (
        f"memory is {mebibytes(config.memory or 0)}, but {config.model} needs"
        f" {mebibytes(held.peak(kv))} at least: {listed};"
        f" while it loads {mebibytes(held.reserve + held.loading)}"
    )


def mebibytes(size: int) -> str:
    """Rounded up, in words."""
    return f"{-(-size // MIB)} MiB"
