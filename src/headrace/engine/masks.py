"""What grammars leave to draw from in a step."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Items

import numpy as np
from numpy.typing import NDArray

from headrace.engine.constraint import Constraint
from headrace.engine.ending import Ending, ending_by
from headrace.engine.row import Row
from headrace.ops.backend import Masks

Words = NDArray[np.uint32]


class MaskTable:
    """Room for the masks of a step, used again for the next. Rows without a grammar have none."""

    def __init__(self, vocab_size: int) -> None:
        self._allowed: Words = np.zeros((0, (vocab_size + 31) // 32), np.uint32)

    def fill(self, rows: Items[Row]) -> tuple[Masks | None, dict[int, Ending]]:
        """Masks for the rows from which a sequence with a grammar draws; and those of them for
        which there is none, with how they end: the document turned out to be complete, or can't be
        followed. What is drawn there doesn't count.

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
        unmasked: dict[int, Ending] = {}
        for (index, row, constraint), words in zip(ruled, self._allowed, strict=False):
            try:
                if _fill(words, row, constraint):
                    continue
                unmasked[index] = Ending("stop")
            except Exception as error:
                unmasked[index] = ending_by(error)
            words[:] = ~np.uint32(0)
        indices = np.array([index for index, _, _ in ruled], np.int32)
        return Masks(indices, self._allowed[: len(ruled)]), unmasked


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
