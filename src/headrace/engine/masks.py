"""What grammars leave to draw from in a step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Items

import numpy as np
import structlog
from numpy.typing import NDArray

from headrace.engine.constraint import Constraint
from headrace.engine.row import Row
from headrace.engine.sequence import MASK_SECONDS, Sequence
from headrace.ops.backend import Masks

log = structlog.get_logger(__name__)

Words = NDArray[np.uint32]

USUAL_SECONDS = 0.002
"""That a mask may take for as long as the answer goes on; ten times what a costly one takes."""

TOO_COSTLY = "the grammar became too costly to follow"


class MaskTable:
    """Room for the masks of a step, used again for the next. Rows without a grammar have none."""

    def __init__(self, vocab_size: int, *, clock: Callable[[], float] = time.thread_time) -> None:
        """clock: in seconds; masks are timed by it. Not by the time of day: who else had the
        processor meanwhile must not decide about an answer."""
        self._clock = clock
        self._allowed: Words = np.zeros((0, (vocab_size + 31) // 32), np.uint32)

    def fill(self, rows: Items[Row]) -> tuple[Masks | None, dict[int, str | None]]:
        """Masks for the rows from which a sequence with a grammar draws; and those of them for
        which there is none, with what to tell the caller, or None where the document turned out to
        be complete. What is drawn there doesn't count.

        The masks hold until the next call.
        """
        ruled = [
            (index, row, row.sequence.constraint)
            for index, row in enumerate(rows)
            if row.scores is None and row.sequence.constraint is not None
        ]
        if not ruled:
            return None, {}
        if len(ruled) > len(self._allowed):
            self._allowed = np.zeros((len(ruled), self._allowed.shape[1]), np.uint32)
        unmasked: dict[int, str | None] = {}
        for (index, row, constraint), words in zip(ruled, self._allowed, strict=False):
            begun = self._clock()
            try:
                fault, left = None, _fill(words, row, constraint)
            except Exception as error:
                fault, left = fault_of(error), False
            if not _afforded(row.sequence, self._clock() - begun) and left:
                fault, left = TOO_COSTLY, False
            if left:
                continue
            unmasked[index] = fault
            words[:] = ~np.uint32(0)
        indices = np.array([index for index, _, _ in ruled], np.int32)
        return Masks(indices, self._allowed[: len(ruled)]), unmasked


def fault_of(error: Exception) -> str:
    """What to tell the caller whose grammar could not be followed. Only a ValueError's text is
    meant for callers."""
    if isinstance(error, ValueError):
        return f"the grammar can't be followed: {error}"
    log.error("constraint failed", exc_info=error)
    return f"the grammar can't be followed ({type(error).__name__})"


def _afforded(sequence: Sequence, seconds: float) -> bool:
    """Whether a sequence's masks cost no more than it may make others wait, with this one. What
    it saves is good for a few costly ones, of which every automaton has some at its start."""
    saved = sequence.mask_seconds + USUAL_SECONDS - seconds
    sequence.mask_seconds = min(saved, MASK_SECONDS)
    return saved >= 0


def _fill(words: Words, row: Row, constraint: Constraint) -> bool:
    """Whether there is a token to draw."""
    constraint.mask(words, row.after)
    if not words.any():
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
