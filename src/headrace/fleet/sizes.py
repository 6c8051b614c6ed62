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
from headrace.models.model import Model
from headrace.ops.backend import BLOCK_SIZE, kv_block_bytes


@dataclass(frozen=True, slots=True)
class Sizes:
    """blocks: KV blocks of the cache. context_length: tokens a sequence may have, prompt and
    completion together: the model's or less, and never more than the cache holds."""

    blocks: int
    context_length: int


def sizes_for(config: WorkerConfig, model: Model, kv_row_bytes: Callable[[int], int]) -> Sizes:
    """As many blocks as the memory allows, but no more than all sequences can ever fill.

    Raises DoesNotFit where the configuration does not fit the model.
    """
    asked = config.context_length or model.context_length
    if asked > model.context_length:
        raise DoesNotFit(
            f"context_length is {asked}, but {config.model} was made for"
            f" {model.context_length} tokens"
        )
    block = kv_block_bytes(model.program, kv_row_bytes)
    affordable = config.kv_memory // block
    if affordable == 0:
        raise DoesNotFit(
            f"kv_memory is {config.kv_memory} bytes,"
            f" but one KV block of {config.model} takes {block}"
        )
    blocks = min(affordable, config.max_sequences * blocks_for(asked))
    return Sizes(blocks, min(asked, blocks * BLOCK_SIZE))
