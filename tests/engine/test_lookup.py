from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.engine.blocks import BlockPool
from headrace.engine.lookup import LONGEST, MOST_SLOTS, SHORTEST, PromptLookup, RunIndex
from headrace.engine.sequence import Sequence

from .fakes import EOS, FakeTextStream, request

texts = st.lists(st.integers(0, 3), max_size=60)


def sequence(prompt: list[int]) -> Sequence:
    return Sequence(request("r", prompt), BlockPool(64), FakeTextStream(()), frozenset({EOS}))


def guesses(lookup: PromptLookup, asked: Sequence, count: int) -> list[int]:
    if not lookup.prepare([asked]):
        return []
    found = []
    for _ in range(count):
        found += lookup.guess([(asked, found)])
    return [guess.token for guess in found]


def longest_match(tokens: list[int]) -> int:
    """Of the runs that end the tokens, the longest up to LONGEST that is there twice."""
    return max(
        (
            n
            for n in range(SHORTEST, LONGEST + 1)
            for end in range(n, len(tokens))
            if tokens[end - n : end] == tokens[-n:]
        ),
        default=0,
    )


def forgets(index: RunIndex, tokens: list[int]) -> bool:
    """Whether two runs have one slot, of which only the later is then known."""
    known: dict[int, tuple[int, ...]] = {}
    for n in range(SHORTEST, LONGEST + 1):
        runs = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
        for run, slot in zip(runs, index._slots(np.array(tokens, np.uint64), n), strict=True):
            if known.setdefault(int(slot), run) != run:
                return True
    return False


@given(texts, st.lists(st.integers(1, 7), max_size=20), st.sampled_from([10, 100, MOST_SLOTS]))
@example([1, 0, 2, 3, 1, 1, 0], [], 100)
def test_what_is_found_ends_like_the_tokens_and_is_no_shorter_than_a_search_finds(
    text: list[int], cuts: list[int], most_tokens: int
) -> None:
    tokens: list[int] = []
    index = RunIndex(tokens, most_tokens)
    for count in [*cuts, 60]:
        tokens += text[len(tokens) : len(tokens) + count]
        source, length = index.find()
        assert source < max(len(tokens), 1)
        if length:
            assert tokens[source - length : source] == tokens[len(tokens) - length :]
        if not forgets(index, tokens):
            assert min(length, LONGEST) >= longest_match(tokens)


def test_a_copy_is_guessed_on_and_on_and_its_grade_rises() -> None:
    lookup, asked = PromptLookup(), sequence([*range(20, 60), 7, 20, 21])
    assert guesses(lookup, asked, 5) == [22, 23, 24, 25, 26]
    grades = []
    for token in range(22, 50):
        lookup.prepare([asked])
        grades.append(lookup.guess([(asked, [])])[0].grade)
        asked.append(token)
    assert grades == sorted(grades)
    assert grades[0] == 0
    assert grades[-1] == lookup.grades - 1


def test_a_text_that_turns_in_a_circle_is_guessed_beyond_its_own_end() -> None:
    assert guesses(PromptLookup(), sequence([1, 2, 3, 1, 2, 3]), 7) == [1, 2, 3, 1, 2, 3, 1]


def test_the_latest_place_counts() -> None:
    assert guesses(PromptLookup(), sequence([5, 6, 1, 5, 6, 2, 9, 5, 6]), 1) == [2]


def test_nothing_is_guessed_where_nothing_repeats() -> None:
    assert guesses(PromptLookup(), sequence([1, 2, 3, 4, 5]), 3) == []
    assert guesses(PromptLookup(), sequence([1]), 3) == []


def test_an_index_is_bounded_and_forgotten() -> None:
    lookup, asked = PromptLookup(), sequence([1, 2, 1, 2])
    lookup.prepare([asked])
    assert len(lookup._indexes) == 1
    lookup.forget(asked)
    assert not lookup._indexes
    assert RunIndex([], 1 << 24)._table.nbytes == 4 * MOST_SLOTS
