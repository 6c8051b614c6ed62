"""From a plan to arrays and back: the engine's side of an executable."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.engine.blocks import blocks_for
from headrace.engine.draws import draws
from headrace.engine.scheduler import Plan
from headrace.engine.sequence import Sequence
from headrace.ops.backend import Adjustments, Batch, Executable, NonFiniteLogits, Sampled, Sampling


@dataclass(frozen=True, slots=True)
class Step:
    """A launched plan. rows: the sequence of each logits row. fault: why it did not start."""

    plan: Plan
    rows: list[Sequence]
    sampling: Sampling
    fault: Exception | None = None


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step gave. broken: rows without a token, because their logits were not finite."""

    step: Step
    sampled: Sampled
    broken: frozenset[int] = frozenset()


class ModelRunner:
    """Runs plans on an executable, one step at a time, in two halves."""

    def __init__(
        self, executable: Executable, *, max_sequences: int, max_step_tokens: int, max_blocks: int
    ) -> None:
        """The most sequences and tokens of a step, and blocks of a sequence."""
        self._executable = executable
        self._tokens = np.zeros(max_step_tokens, np.int32)
        self._positions = np.zeros(max_step_tokens, np.int32)
        self._starts = np.zeros(max_sequences + 1, np.int32)
        self._tables = np.zeros((max_sequences, max_blocks), np.int32)

    def launch(self, plan: Plan) -> Step:
        """Start the forward pass of a plan that is not empty. What the executable raises is
        kept for `sample`, so that all faults of a step come out in one place."""
        fault = None
        try:
            self._executable.launch(self._batch(plan))
        except Exception as error:
            fault = error
        rows = [share.sequence for share in plan.shares if share.samples]
        return Step(plan, rows, sampling_of(rows), fault)

    def sample(self, step: Step) -> StepResult:
        """Wait for the step and draw its tokens. Raises what the executable raised."""
        if step.fault is not None:
            raise step.fault
        try:
            return StepResult(step, self._executable.sample(step.sampling))
        except NonFiniteLogits as error:
            return StepResult(step, error.sampled, frozenset(error.rows))

    def _batch(self, plan: Plan) -> Batch:
        tokens: list[int] = []
        positions: list[int] = []
        starts = [0]
        logit_rows = []
        widest = 0
        for i, share in enumerate(plan.shares):
            sequence, first = share.sequence, share.sequence.computed
            last = first + share.count
            tokens += sequence.tokens[first:last]
            positions += range(first, last)
            starts.append(len(tokens))
            if share.samples:
                logit_rows.append(len(tokens) - 1)
            used = blocks_for(last)
            self._tables[i, :used] = sequence.table.blocks[:used]
            widest = max(widest, used)
        count, sequences = len(tokens), len(plan.shares)
        self._tokens[:count] = tokens
        self._positions[:count] = positions
        self._starts[: sequences + 1] = starts
        return Batch(
            tokens=self._tokens[:count],
            positions=self._positions[:count],
            starts=self._starts[: sequences + 1],
            block_tables=self._tables[:sequences, :widest],
            logit_rows=np.array(logit_rows, np.int32),
        )


def sampling_of(rows: list[Sequence]) -> Sampling:
    """How the next token of each sequence is drawn. A draw's position is the token's own in
    the sequence, prompt included, so that a generation resumed from its tokens draws alike."""
    params = [sequence.request.sampling for sequence in rows]
    keys = np.array([sequence.draw_key for sequence in rows], np.uint64)
    positions = np.array([sequence.wanted for sequence in rows], np.uint64)
    return Sampling(
        temperature=np.array([p.temperature for p in params], np.float32),
        top_k=np.array([p.top_k for p in params], np.int32),
        top_p=np.array([p.top_p for p in params], np.float32),
        min_p=np.array([p.min_p for p in params], np.float32),
        draw=draws(keys, positions),
        top_logprobs=np.array([-1 if p.logprobs is None else p.logprobs for p in params], np.int32),
        adjustments=_adjustments(rows),
    )


def _adjustments(rows: list[Sequence]) -> Adjustments | None:
    row: list[NDArray[np.int32]] = []
    token: list[NDArray[np.int32]] = []
    divide: list[NDArray[np.float32]] = []
    add: list[NDArray[np.float32]] = []
    for r, sequence in enumerate(rows):
        if sequence.adjuster is None:
            continue
        for tokens, divisors, addends in sequence.adjuster.entries():
            row.append(np.full(len(tokens), r, np.int32))
            token.append(tokens)
            divide.append(divisors)
            add.append(addends)
    if not row:
        return None
    return Adjustments(
        np.concatenate(row), np.concatenate(token), np.concatenate(divide), np.concatenate(add)
    )
