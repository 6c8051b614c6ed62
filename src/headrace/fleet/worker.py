"""The process that holds an engine: `python -m headrace.fleet.worker`, started by `Child`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from headrace.engine.blocks import BlockPool, blocks_for
from headrace.engine.loop import Engine
from headrace.engine.runner import ModelRunner
from headrace.engine.scheduler import Scheduler
from headrace.fleet.config import WorkerConfig
from headrace.fleet.cores import usable_cores
from headrace.fleet.host import run
from headrace.fleet.messages import Ready
from headrace.models.model import Model, open_model
from headrace.ops.backend import Backend, Limits, kv_block_bytes
from headrace.text.pipeline import TextPipeline
from headrace.text.tokenizer import Tokenizer


def open_engine(config: WorkerConfig) -> tuple[Engine, Ready]:
    """Load the model that the configuration names. Raises what `open_model`, the tokenizer
    and the backend raise, and ValueError where the configuration does not fit the model."""
    model = open_model(Path(config.path))
    tokenizer = Tokenizer.from_gguf(model.metadata)
    backend = _backend(config)
    context = _context_length(config, model)
    limits = Limits(
        tokens=config.max_step_tokens,
        sequences=config.max_sequences,
        blocks=_blocks(config, model, context, backend.kv_value_bytes),
        threads=config.threads or usable_cores(),
    )
    executable = backend.load(model.program, model.weights, limits)
    scheduler = Scheduler(
        BlockPool(limits.blocks),
        max_sequences=config.max_sequences,
        max_step_tokens=config.max_step_tokens,
        context_length=context,
    )
    runner = ModelRunner(
        executable,
        max_sequences=config.max_sequences,
        max_step_tokens=config.max_step_tokens,
        max_blocks=blocks_for(context),
    )
    engine = Engine(
        runner,
        scheduler,
        tokenizer,
        lambda stop: TextPipeline(tokenizer, stop),
        vocab_size=model.program.vocab_size,
    )
    ready = Ready(
        model=config.model,
        version=config.version,
        isa=backend.isa,
        threads=limits.threads,
        blocks=limits.blocks,
        max_sequences=config.max_sequences,
        context_length=scheduler.context_length,
        pid=os.getpid(),
    )
    return engine, ready


def _backend(config: WorkerConfig) -> Backend:
    if config.backend == "reference":
        from headrace.ops.reference import ReferenceBackend

        return ReferenceBackend()
    from headrace.ops.cpu import CpuBackend

    return CpuBackend(config.isa)


def _context_length(config: WorkerConfig, model: Model) -> int:
    if config.context_length is None:
        return model.context_length
    if config.context_length > model.context_length:
        raise ValueError(
            f"context_length is {config.context_length}, but {config.model} was made for"
            f" {model.context_length} tokens"
        )
    return config.context_length


def _blocks(config: WorkerConfig, model: Model, context: int, value_bytes: int) -> int:
    """As many KV blocks as the memory allows, but no more than all sequences can ever fill."""
    block = kv_block_bytes(model.program, value_bytes)
    affordable = config.kv_memory // block
    if affordable == 0:
        raise ValueError(
            f"kv_memory is {config.kv_memory} bytes,"
            f" but one KV block of {config.model} takes {block}"
        )
    return min(affordable, config.max_sequences * blocks_for(context))


if __name__ == "__main__":
    sys.exit(run(open_engine))
