"""One sequence's place in its grammar."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from llguidance import LLMatcher
from numpy.typing import NDArray

from headrace.grammar.errors import GrammarError
from headrace.grammar.text_bound import TextBound
from headrace.grammar.watch import AHEAD, Watch

_ALL = np.uint32(0xFFFFFFFF)
_Answer = TypeVar("_Answer")

UNMASKED = 256
"""Tokens that are taken without a mask until one is made. What new states may cost llguidance is
bounded for all that it does between two masks."""


@dataclass(slots=True)
class _Place:
    """What is known of a place in the grammar. complete: nothing may follow. forced: what has no
    alternative from there on, None where that was not asked."""

    complete: bool
    forced: list[int] | None = None


class Matcher:
    """Follows one answer through a grammar (`engine.constraint.Constraint`).

    A state is a function of the tokens taken: what is forced is worked out at every token, also
    where nobody asks, so that a replay comes to the same place. For one thread at a time.

    Tokens taken for granted (`mask`'s `after`) are kept until something else is asked, so that
    masks along one guess cost one step each.
    """

    def __init__(
        self,
        matcher: LLMatcher,
        ending_ids: Items[int],
        vocab_size: int,
        watch: Watch | None = None,
        bound: TextBound | None = None,
        *,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        """matcher: ours alone, at the start, over a vocabulary with one token more than
        vocab_size, which stands for the end of the document. watch, bound: at the start too.
        failed: told when the matcher fails, as then all copies of what it is a copy of may."""
        self._matcher = matcher
        self._watch = watch
        self._bound = bound
        self._failed = failed
        self._cut = False
        self._unmasked = 0
        self._end = vocab_size
        self._endings = frozenset(ending_ids)
        self._scratch = np.zeros(vocab_size // 32 + 1, dtype=np.uint32)
        self._address = self._scratch.ctypes.data
        words: defaultdict[int, int] = defaultdict(int)
        for token in self._endings:
            words[token >> 5] |= 1 << (token & 31)
        self._ending_words = [(word, np.uint32(bits)) for word, bits in words.items()]
        self._ended = False
        # Tokens taken for granted, and the places before each of them and behind the last.
        self._guess: list[int] = []
        self._places = [_Place(matcher.is_stopped())]

    @property
    def exhausted(self) -> bool:
        """The document is complete and nothing may follow it."""
        # Where a guess goes on, something may. A document with a text that is too long is none.
        return not (self._guess or self._cut) and (self._ended or self._places[0].complete)

    @property
    def cut(self) -> bool:
        """The document is not complete, but it may not go on: a string in it is longer than it
        should be, or it repeats the same tokens and could do so for ever."""
        return self._cut

    def accept(self, token: int) -> None:
        """Take a token that the mask allowed, also one that ends the sequence. Raises ValueError
        for any other, and GrammarError where following became too costly."""
        self._take(token)
        if self._ended:
            return
        self._unmasked += 1
        if self._unmasked >= UNMASKED:
            self._compute()
        if self._bound is not None:
            self._bound.take(token, self._copy)
            self._cut |= self._bound.exceeded
        if self._watch is not None:
            self._watch.take(token)
            cycle = self._watch.cycle()
            self._cut |= cycle is not None and self._endless(cycle)

    def _copy(self) -> LLMatcher:
        """Of llguidance's matcher, behind the tokens that were accepted."""
        self._walk(())
        return self._ask(self._matcher.deep_copy)

    def _endless(self, cycle: list[int]) -> bool:
        """Whether these tokens may follow again and again, for as long as it can be looked at."""
        times = AHEAD // len(cycle)
        return bool(self._copy().try_consume_tokens(cycle * times) == times * len(cycle))

    def _take(self, token: int) -> None:
        if self._guess[:1] == [token]:
            # Behind a guess that came true we are already.
            del self._guess[0], self._places[0]
            return
        self._walk(())
        if token in self._endings:
            if self._ended or not self._may_end():
                raise ValueError(f"token {token} would end an incomplete document")
            self._ended = True
        elif self._ended or not self._step(token):
            raise ValueError(f"token {token} is not allowed by the grammar")
        else:
            del self._guess[0], self._places[0]

    def forced(self) -> list[int]:
        """Tokens that have no alternative from here on, in order; often none."""
        if self._guess:
            return list(self._places[0].forced or ())  # it was looked at on the way
        return [] if self._ended else list(self._look())

    def mask(self, row: NDArray[np.uint32], after: Items[int] = ()) -> bool:
        """Write a bit for each token, uint32 [ceil(vocab_size / 32)], 1 where it may come next,
        and tell whether there is one.

        after: tokens to take for granted this once. Behind one that is not allowed every token
        is allowed: nobody will draw there. Empty only where the document is complete and there
        are no ids that end a sequence. Raises GrammarError where following became too costly, and
        where all that the grammar leaves are ids that the caller took as endings: drawn, they
        would end an incomplete document.
        """
        if not self._walk(after):
            row[:] = _ALL
            return True
        if self._ended:
            row[:] = 0
            return self._allow_endings(row)
        if forced := self._look():
            row[:] = 0
            row[forced[0] >> 5] = np.uint32(1 << (forced[0] & 31))
            return True
        return self._fill(row)

    def allows(self, tokens: Items[int]) -> int:
        """How many of the tokens, from the first, may follow here one after the other."""
        self._walk(tokens)
        return len(self._guess)

    def any_token(self) -> int | None:
        """Some token that may come next and does not end the sequence; None where it must end."""
        self._walk(())
        if self._ended or self._places[0].complete:
            return None
        if forced := self._look():
            return forced[0]
        row = np.zeros(self._scratch.size, dtype=np.uint32)
        self._fill(row)
        self._bar_endings(row)
        words = np.flatnonzero(row)
        if not words.size:
            return None
        word = int(words[0])
        return word * 32 + (int(row[word]) & -int(row[word])).bit_length() - 1

    def _compute(self) -> NDArray[np.uint32]:
        """llguidance's own mask behind the guess."""
        self._unmasked = 0
        self._ask(self._matcher.unsafe_compute_mask_ptr, self._address, self._scratch.nbytes)
        return self._scratch

    def _fill(self, row: NDArray[np.uint32]) -> bool:
        scratch = self._compute()
        word, bit = self._end >> 5, np.uint32(1 << (self._end & 31))
        may_end = bool(scratch[word] & bit)
        scratch[word] &= ~bit
        row[:] = scratch[: row.size]
        self._bar_endings(row)
        if may_end:
            return self._allow_endings(row) or bool(row.any())
        if row.any():
            return True
        if scratch.any():
            raise GrammarError("All that may come next would end the document incomplete.")
        raise GrammarError("The grammar leads to where nothing may follow.")

    def _bar_endings(self, row: NDArray[np.uint32]) -> None:
        for word, bits in self._ending_words:
            row[word] &= ~bits

    def _allow_endings(self, row: NDArray[np.uint32]) -> bool:
        """Whether there are any."""
        for word, bits in self._ending_words:
            row[word] |= bits
        return bool(self._ending_words)

    def _walk(self, after: Items[int]) -> bool:
        """Go to the place behind these tokens, as far as they are allowed; whether all were."""
        if not (after or self._guess):
            return True
        common = 0
        while common < min(len(after), len(self._guess)) and after[common] == self._guess[common]:
            common += 1
        if surplus := len(self._guess) - common:
            self._ask(self._matcher.rollback, surplus)
            del self._guess[common:], self._places[common + 1 :]
        return all(not self._ended and self._step(token) for token in after[common:])

    def _step(self, token: int) -> bool:
        """Go one token on as part of the guess, if it is allowed."""
        forced = self._look()
        if forced:
            if token != forced[0]:
                return False
        elif token in self._endings:
            return False
        if self._places[-1].complete or not self._ask(self._matcher.try_consume_tokens, [token]):
            return False
        self._guess.append(token)
        self._places.append(_Place(self._matcher.is_stopped(), forced[1:] or None))
        return True

    def _look(self) -> list[int]:
        """What is forced behind the guess."""
        place = self._places[-1]
        if place.forced is None:
            forced = [] if place.complete else self._ask(self._matcher.compute_ff_tokens)
            for index, token in enumerate(forced):
                if token in self._endings or token == self._end:
                    forced = forced[:index]
                    break
            place.forced = forced
        return place.forced

    def _may_end(self) -> bool:
        return not self._look() and self._ask(self._matcher.is_accepting)

    def _ask(self, question: Callable[..., _Answer], *arguments: object) -> _Answer:
        """What llguidance answers. Raises GrammarError where it can't go on."""
        try:
            answer = question(*arguments)
        except Exception as error:
            self._failed()
            raise GrammarError(f"The grammar can't be followed: {reason(str(error))}") from error
        if self._matcher.is_error():
            self._failed()
            why = reason(self._matcher.get_error())
            raise GrammarError(f"The grammar cannot be followed any further: {why}")
        return answer


def reason(error: str) -> str:
    """The first line of what llguidance says; nothing of its own failures, which it words for its
    authors."""
    line = error.strip().partition("\n")[0][:300]
    return "llguidance failed." if line.startswith("panic") else line
