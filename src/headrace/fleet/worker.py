"""The process that holds an engine: `python -m headrace.fleet.worker`, started by `Child`."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from headrace.engine.blocks import BlockPool, blocks_for
from headrace.engine.budget import StepBudget
from headrace.engine.costs import measure_costs
from headrace.engine.draft import DraftModel
from headrace.engine.guess import Proposer
from headrace.engine.lookup import PromptLookup
from headrace.engine.loop import Engine
from headrace.engine.runner import ModelRunner
from headrace.engine.scheduler import Scheduler
from headrace.engine.speculation import Speculator
from headrace.fleet.config import WorkerConfig
from headrace.fleet.constraining import Constraining
from headrace.fleet.cores import usable_cores
from headrace.fleet.draft import check_tokenizers, open_draft
from headrace.fleet.host import run
from headrace.fleet.messages import Ready
from headrace.fleet.sizes import sizes_for
from headrace.grammar.compiler import Compiler
from headrace.models.model import Model, open_model
from headrace.ops.backend import Backend, Executable, Limits
from headrace.text.pipeline import TextPipeline
from headrace.text.tokenizer import Tokenizer


def open_engine(config: WorkerConfig) -> tuple[Engine, Ready]:
    """Load the model that the configuration names. Raises what `open_model`, the tokenizer
    and the backend raise, and DoesNotFit where the configuration does not fit the model."""
    model = open_model(Path(config.path), config.context_length, config.quantization)
    tokenizer = Tokenizer.of_checkpoint(model.metadata, model.tokenizer_file)
    draft = open_draft(config, model)
    if draft is not None:
        check_tokenizers(config, tokenizer, draft)
    backend = _backend(config)
    sizes = sizes_for(config, model, backend.kv_row_bytes, draft)
    limits = Limits(
        tokens=config.max_step_tokens,
        sequences=config.max_sequences,
        blocks=sizes.blocks,
        threads=config.threads or usable_cores(),
        kv_cache=config.kv_cache,
        chunk=config.chunk_beside,
    )
    executable = backend.load(model.program, model.weights, limits)
    speculator = _speculator(config, executable, backend, draft, limits)
    _give_back_free_memory()
    scheduler = Scheduler(
        BlockPool(limits.blocks, caching=config.prefix_cache),
        StepBudget(
            config.max_step_tokens,
            target_itl=None if config.target_itl is None else config.target_itl / 1000,
            target_throughput=config.target_throughput,
            slices=limits.chunk > 0,
        ),
        max_sequences=config.max_sequences,
        context_length=sizes.context_length,
        speculator=speculator,
    )
    runner = ModelRunner(
        executable,
        max_sequences=config.max_sequences,
        max_step_tokens=config.max_step_tokens,
        max_blocks=blocks_for(sizes.context_length),
        vocab_size=model.program.vocab_size,
    )
    constraining = Constraining(
        Compiler(tokenizer, model.program.vocab_size, repetition=config.repetition_stop)
    )
    engine = Engine(
        runner,
        scheduler,
        tokenizer,
        partial(TextPipeline, tokenizer),
        vocab_size=model.program.vocab_size,
        constraints=constraining,
    )
    ready = Ready(
        model=config.model,
        version=config.version,
        isa=backend.isa,
        threads=limits.threads,
        blocks=limits.blocks,
        max_sequences=config.max_sequences,
        max_step_tokens=config.max_step_tokens,
        context_length=scheduler.context_length,
        memory=sizes.memory,
        pid=os.getpid(),
    )
    constraining.open()  # last of all, so that it holds up nothing above
    return engine, ready


def _speculator(
    config: WorkerConfig,
    executable: Executable,
    backend: Backend,
    draft: Model | None,
    limits: Limits,
) -> Speculator | None:
    """What guesses tokens, if any are to be. It measures what a guess costs."""
    if config.speculate == "off":
        return None
    proposer: Proposer = PromptLookup()
    if draft is not None:
        limits = replace(limits, chunk=0)
        small = backend.load(draft.program, draft.weights, limits)
        proposer = DraftModel(small, measure_costs(small, limits), limits)
    costs = measure_costs(executable, limits)
    return Speculator(proposer, costs, most=config.speculate_tokens)


def _give_back_free_memory() -> None:
    """What loading left free in the C library's heap, where it can be asked to return it."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _backend(config: WorkerConfig) -> Backend:
    if config.backend == "reference":
        from headrace.ops.reference import ReferenceBackend

        return ReferenceBackend()
    from headrace.ops.cpu import CpuBackend

    return CpuBackend(config.isa)


if __name__ == "__main__":
    sys.exit(run(open_engine))
