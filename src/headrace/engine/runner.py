"""From a plan to arrays and back: the engine's side of an executable."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from headrace.engine.blocks import blocks_for
from headrace.engine.draws import draws
from headrace.engine.ending import Ending
from headrace.engine.masks import MaskTable
from headrace.engine.row import Row
from headrace.engine.scheduler import Beside, Plan
from headrace.engine.sequence import Sequence
from headrace.ops.backend import (
    Adjustments,
    Batch,
    Executable,
    NonFiniteLogits,
    Prompt,
    Sampled,
    Sampling,
    Slice,
)

FORCED = 1e38
"""Added to a logit, it makes its token the one that is drawn: beyond any logit, and finite."""


@dataclass(frozen=True, slots=True)
class Step:
    """A launched plan. rows: what each logits row is for. fault: why it did not start.
    unmasked: rows whose grammar leaves nothing to draw, and how they end. late: rows whose masks
    were not made in time; their sequences draw in another step."""

    plan: Plan
    rows: list[Row]
    sampling: Sampling
    fault: Exception | None = None
    unmasked: dict[int, Ending] = field(default_factory=dict)
    late: frozenset[int] = frozenset()

    @property
    def held(self) -> set[Sequence]:
        """Sequences that draw nothing in this step."""
        return {self.rows[index].sequence for index in self.late if not self.rows[index].after}


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step gave, to sequences and to the prompt beside it. broken: rows without a token,
    because their logits were not finite."""

    step: Step
    sampled: Sampled
    slice: Slice
    broken: frozenset[int] = frozenset()


class ModelRunner:
    """Runs plans on an executable, one step at a time, in two halves."""

    def __init__(
        self,
        executable: Executable,
        *,
        max_sequences: int,
        max_step_tokens: int,
        max_blocks: int,
        vocab_size: int,
    ) -> None:
        """The most sequences and tokens of a step, and blocks of a sequence."""
        self._executable = executable
        self._begun: Beside | None = None
        self._masks = MaskTable(vocab_size)
        self._tokens = np.zeros(max_step_tokens, np.int32)
        self._positions = np.zeros(max_step_tokens, np.int32)
        self._starts = np.zeros(max_sequences + 1, np.int32)
        self._tables = np.zeros((max_sequences, max_blocks), np.int32)

    def launch(self, plan: Plan) -> Step:
        """Start the forward pass of a plan that is not empty. What the executable raises is
        kept for `sample`, so that all faults of a step come out in one place. What is to be
        drawn, and from what, is made out while it runs."""
        fault = None
        try:
            self._begin(plan.beside)
            self._executable.launch(self._batch(plan), plan.slice_seconds)
        except Exception as error:
            fault = error
        rows = rows_of(plan)
        filled = self._masks.fill(rows)
        sampling = replace(sampling_of(rows), masks=filled.masks)
        return Step(plan, rows, sampling, fault, filled.unmasked, filled.late)

    def sample(self, step: Step) -> StepResult:
        """Wait for the step and draw its tokens. Raises what the executable raised."""
        if step.fault is not None:
            raise step.fault
        broken: list[int] = []
        try:
            sampled = self._executable.sample(step.sampling)
        except NonFiniteLogits as error:
            sampled, broken = error.sampled, error.rows
        return StepResult(step, sampled, self._executable.slice(), frozenset(broken))

    def _begin(self, beside: Beside | None) -> None:
        """Take up a prompt that has just gone beside the steps, in place of the one before it,
        which is through or has left."""
        if beside is None or beside is self._begun:
            return
        sequence, first, last = beside.sequence, beside.first, beside.last
        tokens = np.array(sequence.tokens[first:last], np.int32)
        self._executable.begin(Prompt(tokens, first, sequence.table.blocks[: blocks_for(last)]))
        self._begun = beside

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
            tokens += [guess.token for guess in share.guesses]
            last += len(share.guesses)
            positions += range(first, last)
            starts.append(len(tokens))
            logit_rows += [starts[-2] + at - 1 - first for at in sequence.scored_by(share.count)]
            if share.samples:
                logit_rows += range(starts[-2] + share.count - 1, len(tokens))
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


def rows_of(plan: Plan) -> list[Row]:
    """The rows of logits that a plan wants, in the order of its tokens."""
    rows = []
    for share in plan.shares:
        rows += [Row(share.sequence, at) for at in share.sequence.scored_by(share.count)]
        guesses = tuple(guess.token for guess in share.guesses)
        if share.samples:
            rows += [Row(share.sequence, after=guesses[:n]) for n in range(len(guesses) + 1)]
    return rows


def sampling_of(rows: list[Row]) -> Sampling:
    """How the next token of each sequence is drawn, and of rows that score a prompt how that
    token is: the sampler reports the logprob of what it draws, so it is made to draw it.

    A draw's position is the token's own in the sequence, prompt included, so that a generation
    resumed from its tokens draws alike."""
    params = [row.sequence.request.sampling for row in rows]
    keys = np.array([row.sequence.draw_key for row in rows], np.uint64)
    positions = np.array([row.sequence.wanted + len(row.after) for row in rows], np.uint64)
    temperatures = [
        p.temperature if row.scores is None else 0.0 for row, p in zip(rows, params, strict=True)
    ]
    return Sampling(
        temperature=np.array(temperatures, np.float32),
        top_k=np.array([p.top_k for p in params], np.int32),
        top_p=np.array([p.top_p for p in params], np.float32),
        min_p=np.array([p.min_p for p in params], np.float32),
        draw=draws(keys, positions),
        top_logprobs=np.array([-1 if p.logprobs is None else p.logprobs for p in params], np.int32),
        adjustments=_adjustments(rows),
    )


def _adjustments(rows: list[Row]) -> Adjustments | None:
    row: list[NDArray[np.int32]] = []
    token: list[NDArray[np.int32]] = []
    divide: list[NDArray[np.float32]] = []
    add: list[NDArray[np.float32]] = []
    for r, wanted in enumerate(rows):
        adjuster = wanted.sequence.adjuster
        if wanted.scores is not None:
            entries = [_forced(wanted.target)]
        elif adjuster is not None:
            entries = adjuster.entries(wanted.after)
        else:
            continue
        for tokens, divisors, addends in entries:
            row.append(np.full(len(tokens), r, np.int32))
            token.append(tokens)
            divide.append(divisors)
            add.append(addends)
    if not row:
        return None
    return Adjustments(
        np.concatenate(row), np.concatenate(token), np.concatenate(divide), np.concatenate(add)
    )


def _forced(token: int) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]:
    """An entry by which nothing but this token is drawn."""
    return np.array([token], np.int32), np.ones(1, np.float32), np.full(1, FORCED, np.float32)
