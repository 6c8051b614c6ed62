"""A token that a sequence may continue with, before the model was asked."""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import Protocol

from headrace.engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Guess:
    """grade: how sure its proposer is, from 0 up; what a grade is worth is learned."""

    token: int
    grade: int


class Proposer(Protocol):
    """Guesses how sequences go on, a token of each at a time.

    grades: how many grades its guesses have.
    """

    @property
    def grades(self) -> int: ...

    def round_seconds(self, sequences: int) -> float:
        """What a `guess` for so many sequences takes."""
        ...

    def prepare(self, sequences: Items[Sequence]) -> list[Sequence]:
        """Those for which it has guesses. Called once a step, before `guess`."""
        ...

    def guess(self, wanted: Items[tuple[Sequence, Items[Guess]]]) -> list[Guess]:
        """The next token of each of these sequences, given the guesses before it."""
        ...

    def forget(self, sequence: Sequence) -> None:
        """It has left the engine."""
        ...
