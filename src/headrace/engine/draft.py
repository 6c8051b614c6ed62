"""A smaller model of the same vocabulary guesses what the large one will say.

It keeps its keys and values under the numbers of the large model's blocks: a sequence's block
table serves both, so blocks are counted, shared and given up once. What the draft has computed
in a block is remembered by the block's key (`engine.chain`), so it follows prefix cache hits
and preemptions without being told; where it errs a guess is wrong, and never an answer.

It draws with the large model's numbers and parameters: at the same draw, two distributions
that are alike mostly give the same token, so sampled text is guessed nearly as well as greedy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Items
from dataclasses import dataclass, replace

import numpy as np

from headrace.engine.blocks import blocks_for
from headrace.engine.costs import StepCosts
from headrace.engine.guess import Guess
from headrace.engine.row import Row
from headrace.engine.runner import sampling_of
from headrace.engine.sequence import Sequence
from headrace.ops.backend import BLOCK_SIZE, Batch, Executable, Limits, NonFiniteLogits, Sampled

CATCH_UP = 256
"""Most tokens of prompts that the draft reads between two steps."""

WORTH = 4
"""A prompt is read for an answer that may be a so-many-th of it at least."""

_SURE = (0.3, 0.6, 0.9)
"""Probabilities, by the draft, from which a guess has the next grade."""


@dataclass(slots=True)
class _Progress:
    """Tokens of a sequence that the draft has computed, and whether that was before its
    preemption."""

    computed: int = 0
    reserved: bool = False


@dataclass(frozen=True, slots=True)
class _Part:
    """Tokens to compute, from position `first` on, and whether the next one is to be drawn,
    after these guesses."""

    sequence: Sequence
    first: int
    tokens: list[int]
    after: tuple[int, ...] | None = None


class DraftModel:
    """Guesses by running another executable, one token of each sequence a round.

    Grades: how likely the draft holds its guess.
    """

    grades = len(_SURE) + 1

    def __init__(self, executable: Executable, costs: StepCosts, limits: Limits) -> None:
        """limits: the executable's; as many blocks as the large model has. costs: of its steps."""
        self._executable = executable
        self._costs = costs
        self._limits = limits
        self._progress: dict[str, _Progress] = {}
        # Of each block: its key, or the sequence that has not filled it for certain yet.
        self._contents: list[bytes | str | None] = [None] * limits.blocks

    def round_seconds(self, sequences: int) -> float:
        return self._costs(sequences)

    def prepare(self, sequences: Items[Sequence]) -> list[Sequence]:
        """Those that it has caught up with; some tokens of another are read meanwhile."""
        ready, room, parts = [], min(CATCH_UP, self._limits.tokens), []
        for sequence in sequences:
            progress = self._up_to_date(sequence)
            behind = sequence.wanted - progress.computed
            if behind <= BLOCK_SIZE:
                ready.append(sequence)
            elif room and behind <= WORTH * (sequence.most_computed - sequence.wanted):
                first = progress.computed
                count = min(behind - 1, room)
                tokens = sequence.tokens[first : first + count].tolist()
                parts.append(_Part(sequence, first, tokens))
                room -= count
        if parts:
            self._run(parts)
        return ready[: self._limits.tokens // BLOCK_SIZE]

    def guess(self, wanted: Items[tuple[Sequence, Items[Guess]]]) -> list[Guess]:
        parts = []
        for sequence, before in wanted:
            first = self._progress[sequence.request.id].computed
            after = tuple(guess.token for guess in before)
            tokens = [*sequence.tokens[first:], *after[max(first - sequence.wanted, 0) :]]
            parts.append(_Part(sequence, first, tokens, after))
        sampled = self._run(parts)
        return [
            Guess(max(token, 0), _grade(logprob))
            for token, logprob in zip(
                sampled.tokens.tolist(), sampled.logprobs.tolist(), strict=True
            )
        ]

    def forget(self, sequence: Sequence) -> None:
        self._progress.pop(sequence.request.id, None)

    def _up_to_date(self, sequence: Sequence) -> _Progress:
        """How far it is, without what was guessed wrong, given up or taken over since."""
        progress = self._progress.setdefault(sequence.request.id, _Progress())
        progress.computed = min(progress.computed, sequence.wanted - 1)
        if progress.reserved != sequence.reserved or not self._keeps(sequence, progress):
            progress.computed, progress.reserved = 0, sequence.reserved
        block = progress.computed // BLOCK_SIZE
        while (block + 1) * BLOCK_SIZE < sequence.wanted and self._holds(sequence, block):
            block += 1
            progress.computed = block * BLOCK_SIZE
        return progress

    def _keeps(self, sequence: Sequence, progress: _Progress) -> bool:
        """Whether its last full block is still there; a guess that filled it is certain now."""
        index = progress.computed // BLOCK_SIZE - 1
        if index < 0:
            return True
        block = int(sequence.table.blocks[index])
        if self._contents[block] == sequence.request.id:
            self._contents[block] = sequence.chain[index]
        return self._holds(sequence, index)

    def _holds(self, sequence: Sequence, index: int) -> bool:
        """Whether the draft has computed what the sequence has in that block."""
        full = (index + 1) * BLOCK_SIZE <= sequence.wanted
        block = int(sequence.table.blocks[index])
        return full and self._contents[block] == sequence.chain[index]

    def _run(self, parts: Items[_Part]) -> Sampled:
        self._executable.launch(_batch(parts))
        rows = [Row(part.sequence, after=part.after) for part in parts if part.after is not None]
        how = sampling_of(rows)
        how = replace(how, top_logprobs=np.zeros(len(rows), np.int32))  # of the drawn token only
        try:
            sampled = self._executable.sample(how)
        except NonFiniteLogits as error:
            sampled = error.sampled
        for part in parts:
            self._note(part)
        return sampled

    def _note(self, part: _Part) -> None:
        sequence, last = part.sequence, part.first + len(part.tokens)
        self._progress[sequence.request.id].computed = last
        for index in range(part.first // BLOCK_SIZE, blocks_for(last)):
            end = (index + 1) * BLOCK_SIZE
            certain = end <= min(last, sequence.wanted)
            block = int(sequence.table.blocks[index])
            self._contents[block] = sequence.chain[index] if certain else sequence.request.id


def _batch(parts: Items[_Part]) -> Batch:
    ends = np.cumsum([0, *(len(part.tokens) for part in parts)]).astype(np.int32)
    used = [blocks_for(part.first + len(part.tokens)) for part in parts]
    tables = np.zeros((len(parts), max(used)), np.int32)
    for table, part, count in zip(tables, parts, used, strict=True):
        table[:count] = part.sequence.table.blocks[:count]
    drawn = [end - 1 for end, part in zip(ends[1:], parts, strict=True) if part.after is not None]
    return Batch(
        tokens=np.array([token for part in parts for token in part.tokens], np.int32),
        positions=np.concatenate(
            [np.arange(p.first, p.first + len(p.tokens), dtype=np.int32) for p in parts]
        ),
        starts=ends,
        block_tables=tables,
        logit_rows=np.array(drawn, np.int32),
    )


def _grade(logprob: float) -> int:
    if not math.isfinite(logprob):
        return 0
    return sum(math.exp(logprob) >= bound for bound in _SURE)
