"""What the engine asks of a grammar that an answer must follow."""

from __future__ import annotations

from collections.abc import Hashable
from collections.abc import Sequence as Items
from concurrent.futures import Future
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.grammar.grammar import Grammar


class Constraint(Protocol):
    """One sequence's place in its grammar (`grammar.matcher.Matcher`): a function of the tokens it
    took, so that it is rebuilt by giving them again.

    Ids that end a sequence are allowed where, and only where, the document may end.
    """

    @property
    def exhausted(self) -> bool:
        """The document is complete and nothing may follow it."""
        ...

    @property
    def cut(self) -> bool:
        """The document is not complete, but it may not go on."""
        ...

    def accept(self, token: int) -> None:
        """Take a token that the mask allowed. Raises ValueError for any other."""
        ...

    def allows(self, tokens: Items[int]) -> int:
        """How many of the tokens, from the first, may come next one after the other."""
        ...

    def forced(self) -> list[int]:
        """Tokens that have no alternative from here on, in order; often none. Where there are
        any, `mask` allows the first of them alone, so whether they are drawn or taken as they
        are makes no difference."""
        ...

    def mask(self, row: NDArray[np.uint32], after: Items[int] = ()) -> bool:
        """Write a bit for each token, uint32 [ceil(vocab_size / 32)], 1 where it may come next,
        and tell whether there is one.

        after: tokens to take for granted this once. Behind one that is not allowed, every token
        is: nobody will draw there. Nothing is left only where the document is complete and no
        id ends the sequence, if `exhausted` could not tell before.
        """
        ...


class Constraints(Protocol):
    """Makes constraints, elsewhere than on the thread that asks."""

    def __call__(
        self, grammar: Grammar, ending_ids: frozenset[int], taken: Items[int], owner: Hashable
    ) -> Future[Constraint]:
        """Start to make one.

        ending_ids: those that end the sequence. taken: tokens that it has accepted already. owner:
        whose it is; owners take turns. The Future raises ValueError, with a sentence for the
        caller, for a grammar that can't be followed. Who no longer needs it cancels the Future.
        """
        ...
