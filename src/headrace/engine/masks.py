"""What grammars leave to draw from in a step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Items
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headrace.engine.constraint import Constraint
from headrace.engine.ending import Ending, ending_by
from headrace.engine.row import Row
from headrace.engine.sequence import Sequence
from headrace.ops.backend import Masks

Words = NDArray[np.uint32]

STEP_SECONDS = 0.03
"""Of processor time that the masks of a step may take. What is late waits for the next step."""

CHEAP_SECONDS = 0.001
"""A sequence whose last mask took no longer never waits; usual masks take a tenth of that."""


@dataclass(frozen=True, slots=True)
class Filled:
    """The masks of a step; None where no row has one. unmasked: rows for which there is no mask,
    and how they end: the document turned out to be complete, or can't be followed. late: rows whose
    masks there was no time for. What is drawn from either doesn't count."""

    masks: Masks | None = None
    unmasked: dict[int, Ending] = field(default_factory=dict)
    late: frozenset[int] = frozenset()


class MaskTable:
    """Room for the masks of a step, used again for the next. Rows without a grammar have none.

    Everyone in a step waits for its masks, so they have a budget together. Cheap ones come first;
    of the others, those that have waited longest, and one of them in any step.
    """

    def __init__(self, vocab_size: int, *, clock: Callable[[], float] = time.thread_time) -> None:
        """clock: in seconds of this thread's processor time."""
        self._allowed: Words = np.zeros((0, (vocab_size + 31) // 32), np.uint32)
        self._clock = clock

    def fill(self, rows: Items[Row]) -> Filled:
        """Masks for the rows from which a sequence with a grammar draws. They hold until the next
        call."""
        ruled = [
            (index, row, row.sequence.constraint)
            for index, row in enumerate(rows)
            if row.scores is None and row.sequence.constraint is not None
        ]
        if not ruled:
            return Filled()
        if len(ruled) > len(self._allowed):
            self._allowed = np.zeros((len(ruled), self._allowed.shape[1]), np.uint32)
        unmasked: dict[int, Ending] = {}
        late: set[int] = set()
        begun, costly = self._clock(), 0
        for place in sorted(range(len(ruled)), key=lambda place: _order(ruled[place][1])):
            index, row, constraint = ruled[place]
            words, sequence = self._allowed[place], row.sequence
            sooner = self._clock()
            if not _is_cheap(sequence) and costly and sooner - begun > STEP_SECONDS:
                late.add(index)
                sequence.masks_waited += not row.after
                words[:] = ~np.uint32(0)
                continue
            costly += not _is_cheap(sequence)
            try:
                if not _fill(words, row, constraint):
                    unmasked[index] = Ending("stop")
            except Exception as error:
                unmasked[index] = ending_by(error)
            if index in unmasked:
                words[:] = ~np.uint32(0)
            sequence.mask_seconds = self._clock() - sooner
            sequence.masks_waited = 0
        indices = np.array([index for index, _, _ in ruled], np.int32)
        return Filled(Masks(indices, self._allowed[: len(ruled)]), unmasked, frozenset(late))


def _is_cheap(sequence: Sequence) -> bool:
    return sequence.mask_seconds is not None and sequence.mask_seconds <= CHEAP_SECONDS


def _order(row: Row) -> tuple[bool, int]:
    """Cheap ones first, then who has waited longest."""
    return not _is_cheap(row.sequence), -row.sequence.masks_waited


def _fill(words: Words, row: Row, constraint: Constraint) -> bool:
    """Whether there is a token to draw."""
    if not constraint.mask(words, row.after):
        return False
    sequence = row.sequence
    if sequence.generated + len(row.after) < sequence.request.stopping.min_tokens:
        others = words & ~_bits(sequence.ending_ids, len(words))
        if others.any():  # else the document has to end
            words[:] = others
    return True


def _bits(tokens: Iterable[int], words: int) -> Words:
    bits = np.zeros(words, np.uint32)
    for token in tokens:
        bits[token // 32] |= np.uint32(1 << token % 32)
    return bits
