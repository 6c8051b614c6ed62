"""What a row of logits is for."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Row:
    """Logits of a sequence: they score its prompt token at the index `scores`, or, if that is
    None, its next token is drawn from them. after: guesses that are taken for granted by that:
    the token is the next but so many."""

    sequence: Sequence
    scores: int | None = None
    after: tuple[int, ...] = ()

    @property
    def target(self) -> int:
        """The prompt token that it scores."""
        assert self.scores is not None
        return self.sequence.tokens[self.scores]
