"""One sequence's logits from a backend, in steps as an engine would take them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from headrace.models.model import open_model
from headrace.ops.backend import BLOCK_SIZE, Backend, Batch, Executable, Limits


def load(backend: Backend, path: Path, tokens: int, step: int) -> Executable:
    """The model, ready for one sequence of up to `tokens` tokens in steps of up to `step`."""
    model = open_model(path)
    limits = Limits(tokens=step, sequences=1, blocks=-(-tokens // BLOCK_SIZE), threads=2)
    return backend.load(model.program, model.weights, limits)


def step_logits(executable: Executable, tokens: np.ndarray, step: int) -> Iterator[np.ndarray]:
    """float32 [up to step, vocabulary] for every token, step by step."""
    blocks = np.arange(-(-len(tokens) // BLOCK_SIZE), dtype=np.int32)[None]
    for start in range(0, len(tokens), step):
        part = tokens[start : start + step].astype(np.int32)
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
        yield executable.logits()
