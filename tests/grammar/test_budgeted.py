"""Thoughts end in time, whatever a model would say."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from headrace.grammar import Grammar
from headrace.grammar.budget import ThoughtBudget
from headrace.grammar.budgeted import BudgetedMatcher
from headrace.text.reasoning import Thinking
from headrace.text.tools.grammar import text_behind_thoughts
from tests.grammar.following import compiler, ids, mask, tokenizer

SIZE = tokenizer().vocab_size
BEGUN = Thinking("<think>", "</think>", begun=True)
UNBEGUN = Thinking("<think>", "</think>")
CLOSING = tokenizer().encode_within("</think>")


def followed(thinking: Thinking, tokens: int) -> BudgetedMatcher:
    budget = ThoughtBudget(thinking, tokens)
    made = compiler().compile(Grammar(text_behind_thoughts(thinking), budget), ())
    assert isinstance(made, BudgetedMatcher)
    return made


def said(matcher: BudgetedMatcher, wanted: Iterable[int]) -> list[int]:
    """What a model says that wants to say this, and goes on where it was interrupted."""
    tokens = []
    for token in wanted:
        while not 1 & mask(matcher, SIZE)[token >> 5] >> np.uint32(token & 31):
            (only,) = ids(mask(matcher, SIZE)).tolist()
            assert only == matcher.forced()[0]
            with pytest.raises(ValueError, match=f"token {token}"):
                matcher.accept(token)
            matcher.accept(only)
            tokens.append(only)
        matcher.accept(token)
        tokens.append(token)
    return tokens


def text(tokens: list[int]) -> bytes:
    return b"".join(map(tokenizer().piece, tokens))


@pytest.mark.parametrize(
    ("thinking", "budget", "wanted", "expected"),
    [
        (BEGUN, 5, "one two three", "one t</think>wo three"),
        (BEGUN, 10, "hm</think>one two", "hm</think>one two"),
        (BEGUN, 5, "hm</think>one two", "hm</t</think>one two"),  # a piece of it is none
        (BEGUN, 4, "oneé two", "oneé</think> two"),  # a character comes first
        (UNBEGUN, 5, "<think>one two", "<think>one t</think>wo"),
        (UNBEGUN, 10, "\n<think>a</think>one two", "\n<think>a</think>one two"),
        (UNBEGUN, 2, "one <think>two three", "one <think>two three"),
    ],
)
def test_thoughts_are_closed_and_the_answer_follows(
    thinking: Thinking, budget: int, wanted: str, expected: str
) -> None:
    tokens = said(followed(thinking, budget), tokenizer().encode_within(wanted))
    assert text(tokens) == expected.encode()


@given(
    st.lists(st.sampled_from(["a", "<", "</think", ">", "é", " "]), max_size=6), st.integers(1, 9)
)
def test_no_thoughts_are_longer_than_their_budget(pieces: list[str], budget: int) -> None:
    wanted = tokenizer().encode_within("".join(pieces))
    tokens = said(followed(BEGUN, budget), wanted)
    thoughts, closed, _ = text(tokens).partition(b"</think>")
    most = budget + 1  # for the second byte of a character
    assert len(thoughts) <= (most if closed else most + len(CLOSING) - 1)
    if len(wanted) <= budget:
        assert tokens == wanted


@given(
    st.lists(st.sampled_from([*b"ab</think>"]), max_size=12),
    st.lists(st.sampled_from([*b"ab</think>"]), max_size=12),
)
def test_guesses_see_what_comes_after_them(begun: list[int], guess: list[int]) -> None:
    ahead, behind = followed(BEGUN, 4), followed(BEGUN, 4)
    for token in begun:
        if ahead.allows([token]):
            ahead.accept(token)
            behind.accept(token)
    allowed = ahead.allows(guess)
    masks = [masked(ahead, guess[:n]) for n in range(allowed + 1)]
    for token, expected in zip([*guess[:allowed], None], masks, strict=True):
        assert (masked(behind, []) == expected).all()
        if token is not None:
            behind.accept(token)
    if allowed < len(guess):
        assert not behind.allows(guess[allowed : allowed + 1])


def masked(matcher: BudgetedMatcher, after: list[int]) -> NDArray[np.uint32]:
    return mask(matcher, SIZE, tuple(after)).copy()


def test_a_marker_that_is_a_control_token_is_one_token() -> None:
    control = next(id for id in range(SIZE) if not tokenizer().piece(id))
    thinking = Thinking("[THINK]", "[/THINK]", begun=True, controls={control: "[/THINK]"})
    tokens = said(followed(thinking, 3), [*b"abcdef"])
    assert tokens == [*b"abc", control, *b"def"]
