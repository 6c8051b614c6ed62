"""Prompt lookup: a text that repeats itself is guessed from where it said so before.

After Saxena, "Prompt Lookup Decoding" (2023): the longest run of last tokens that occurred
earlier is found, and what followed it then is the guess. Copies, edits and quotations are
guessed well, free text badly.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from collections.abc import Sequence as Items

import numpy as np
from numpy.typing import NDArray

from headrace.engine.guess import Guess
from headrace.engine.sequence import Sequence

SHORTEST, LONGEST = 2, 4
"""Tokens of the runs that are indexed. A match is followed for as long as it holds, however
long it gets."""

MOST_SLOTS = 1 << 16
"""Of a sequence's index. In a text of more than a few thousand tokens many runs are forgotten."""

SLOTS_PER_RUN = 4
"""At least, in a shorter one: the first of its runs is still there at the end in three cases of
four or more."""

INDEX_BYTES = 4 * MOST_SLOTS
"""The most that the index of one sequence takes."""

_FACTOR, _SPREAD = np.uint64(0xD1342543DE82EF95), np.uint64(0x9E3779B97F4A7C15)


class RunIndex:
    """Where runs of SHORTEST to LONGEST tokens of one growing list were last followed by another.

    One table of positions for all lengths, addressed by a hash of the run; a run that meets
    another there takes its place, and the other is forgotten. What is found is compared with the
    tokens, so a guess always rests on a true match. Tokens are indexed once, so a new one costs
    the same however many there are.
    """

    __slots__ = ("_indexed", "_length", "_shift", "_source", "_table", "_tokens")

    def __init__(self, tokens: MutableSequence[int], most_tokens: int) -> None:
        """tokens: the sequence's own list, which grows at its end. most_tokens: how far."""
        runs = (LONGEST - SHORTEST + 1) * most_tokens
        slots = min(max(1 << (SLOTS_PER_RUN * runs).bit_length(), 1 << 8), MOST_SLOTS)
        self._shift = np.uint64(64 - (slots.bit_length() - 1))
        self._table: NDArray[np.int32] = np.zeros(slots, np.int32)
        self._tokens = tokens
        self._indexed = 0  # tokens that were last when `find` was called
        self._source = 0
        self._length = 0

    def find(self) -> tuple[int, int]:
        """(source, length): the tokens before index `source` are the last ones, `length` of them
        at least; length 0 if there is no such place. source is less than the number of tokens."""
        tokens, seen = self._tokens, self._indexed
        if seen == len(tokens):
            return self._source, self._length
        self._follow(tokens[seen:])
        recent = np.array(tokens[max(0, seen - LONGEST) :], np.uint64)
        ends = {}
        for n in range(SHORTEST, LONGEST + 1):
            slots = self._slots(recent, n)
            if not len(slots):
                break
            # The run that ends the tokens is not indexed before something follows it.
            new = slots[-1 - (len(tokens) - seen) : -1]
            self._table[new] = np.arange(len(tokens) - len(new), len(tokens))
            ends[n] = slots[-1]
        self._indexed = len(tokens)
        if not self._length:
            self._search(ends)
        return self._source, self._length

    def _follow(self, new: Items[int]) -> None:
        """Whether the place found before goes on like the tokens."""
        for token in new:
            if self._length and self._tokens[self._source] == token:
                self._source += 1
                self._length += 1
            else:
                self._length = 0

    def _search(self, slots: dict[int, np.intp]) -> None:
        tokens = self._tokens
        for n in sorted(slots, reverse=True):
            place = int(self._table[slots[n]])
            if place >= n and tokens[place - n : place] == tokens[-n:]:
                self._source, self._length = place, n
                return

    def _slots(self, tokens: NDArray[np.uint64], n: int) -> NDArray[np.intp]:
        """Of each run of n tokens, in order."""
        count = max(len(tokens) - n + 1, 0)
        hashes = np.full(count, n, np.uint64)
        for i in range(n):
            hashes = (hashes + tokens[i : i + count]) * _FACTOR
        return ((hashes * _SPREAD) >> self._shift).astype(np.intp)


class PromptLookup:
    """Guesses by what followed the same tokens before. Costs next to nothing.

    Grades: matches of 2 or 3 tokens, 4 to 7, 8 to 15, and longer ones.
    """

    grades = 4

    def __init__(self) -> None:
        self._indexes: dict[str, RunIndex] = {}

    def round_seconds(self, sequences: int) -> float:
        return 0.0

    def prepare(self, sequences: Items[Sequence]) -> list[Sequence]:
        return [sequence for sequence in sequences if self._index(sequence).find()[1]]

    def guess(self, wanted: Items[tuple[Sequence, Items[Guess]]]) -> list[Guess]:
        return [self._guess(sequence, before) for sequence, before in wanted]

    def forget(self, sequence: Sequence) -> None:
        self._indexes.pop(sequence.request.id, None)

    def _guess(self, sequence: Sequence, before: Items[Guess]) -> Guess:
        source, length = self._index(sequence).find()
        place, known = source + len(before), len(sequence.tokens)
        # A text that repeats itself without a pause goes on into the guesses themselves.
        token = sequence.tokens[place] if place < known else before[place - known].token
        grade = (length + len(before)).bit_length() - 2
        return Guess(token, min(grade, self.grades - 1))

    def _index(self, sequence: Sequence) -> RunIndex:
        id = sequence.request.id
        if id not in self._indexes:
            self._indexes[id] = RunIndex(sequence.tokens, sequence.most_computed + 1)
        return self._indexes[id]
