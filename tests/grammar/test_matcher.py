from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher

from headrace.grammar.compiler import Compiler
from headrace.grammar.errors import GrammarError
from headrace.grammar.forms import choice, json_schema, lark, regex
from headrace.grammar.grammar import Grammar
from headrace.grammar.matcher import Matcher
from headrace.models.gguf import read_gguf
from headrace.text.tokenizer import Tokenizer
from tests.grammar.following import allowed, ids, mask, matcher, tokenizer

PERSON = json_schema(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "tags": {"type": "array", "items": {"enum": ["new", "newer"]}, "maxItems": 3},
        },
        "required": ["name", "age"],
        "additionalProperties": False,
    }
)


def test_a_document_may_end_where_it_is_complete() -> None:
    endings = tokenizer().eos_ids
    followed = matcher(regex("ab?"))
    assert not allowed(followed, tokenizer().vocab_size) & endings
    with pytest.raises(ValueError, match="incomplete"):
        followed.accept(min(endings))
    followed.accept(ord_id("a"))
    assert allowed(followed, tokenizer().vocab_size) == {ord_id("b"), *endings}
    assert not followed.exhausted
    followed.accept(ord_id("b"))
    assert followed.exhausted
    assert allowed(followed, tokenizer().vocab_size) == endings


def ord_id(char: str) -> int:
    return tokenizer().encode_within(char)[0]


def test_an_ending_that_is_taken_ends_it() -> None:
    followed = matcher(regex("a*"))
    followed.accept(min(tokenizer().eos_ids))
    assert followed.exhausted
    assert followed.forced() == []
    assert allowed(followed, tokenizer().vocab_size) == tokenizer().eos_ids
    with pytest.raises(ValueError, match="not allowed"):
        followed.accept(ord_id("a"))


def test_ids_that_callers_take_as_endings_are_endings_only() -> None:
    compiler = Compiler(tokenizer(), tokenizer().vocab_size)
    followed = compiler.compile(regex("[ab]+"), [ord_id("b")])
    assert allowed(followed, tokenizer().vocab_size) == {ord_id("a")}
    followed.accept(ord_id("a"))
    assert allowed(followed, tokenizer().vocab_size) == {ord_id("a"), ord_id("b")}


@pytest.mark.parametrize("pattern", ["b+", "[bc]", "bx"])
def test_an_ending_that_would_be_the_only_way_on_is_no_way(pattern: str) -> None:
    """Drawn, it would end a document that is not complete."""
    compiler = Compiler(tokenizer(), tokenizer().vocab_size)
    stuck = compiler.compile(regex(pattern), [ord_id("b"), ord_id("c")])
    with pytest.raises(GrammarError, match="incomplete"):
        mask(stuck, tokenizer().vocab_size)


def test_control_tokens_are_never_text() -> None:
    followed = matcher(lark(r"start: /[^x]+/"))
    tokens = allowed(followed, tokenizer().vocab_size)
    assert not any(tokenizer().is_control(token) for token in tokens)
    written = tokenizer().encode_within("<|start|>")
    assert followed.allows(written) == len(written) > 1


def test_logits_may_be_wider_than_the_vocabulary() -> None:
    for wider in (0, 1, 31, 32, 100):
        size = tokenizer().vocab_size + wider
        followed = Compiler(tokenizer(), size).compile(regex("[^a]"), [256])
        row = np.zeros(-(-size // 32), np.uint32)
        followed.mask(row)
        assert not allowed(followed, size) & set(range(tokenizer().vocab_size, size + 32))


def test_what_is_not_allowed_is_a_value_error_and_changes_nothing() -> None:
    followed = matcher(choice(["ab", "ac"]))
    with pytest.raises(ValueError, match="not allowed"):
        followed.accept(ord_id("b"))
    assert followed.forced() == [ord_id("a")]
    followed.accept(ord_id("a"))
    assert allowed(followed, tokenizer().vocab_size) == {ord_id("b"), ord_id("c")}


def test_each_matcher_is_its_own() -> None:
    one, other = matcher(choice(["ab", "cd"])), matcher(choice(["ab", "cd"]))
    one.accept(ord_id("a"))
    assert allowed(other, tokenizer().vocab_size) == {ord_id("a"), ord_id("c")}


# --- over a real vocabulary


@pytest.fixture(scope="module")
def real(smollm2_path: Path) -> tuple[Tokenizer, Compiler]:
    tokenizer = Tokenizer.from_gguf(read_gguf(smollm2_path).metadata)
    return tokenizer, Compiler(tokenizer, tokenizer.vocab_size)


def test_forced_tokens_are_the_canonical_ones(real: tuple[Tokenizer, Compiler]) -> None:
    tokenizer, compiler = real
    followed = compiler.compile(choice(["The weather in Paris is fine."]), tokenizer.eos_ids)
    assert followed.forced() == tokenizer.encode_within("The weather in Paris is fine.")


def draw_through(
    real: tuple[Tokenizer, Compiler], grammar: Grammar, seed: int, *, fast: bool
) -> list[int]:
    """Up to 24 tokens drawn by the masks; fast takes what is forced without asking."""
    tokenizer, compiler = real
    followed = compiler.compile(grammar, tokenizer.eos_ids)
    tokens: list[int] = []
    while len(tokens) < 24 and not followed.exhausted:
        for token in followed.forced() if fast else []:
            followed.accept(token)
            tokens.append(token)
        if followed.exhausted:
            break
        choices = ids(mask(followed, tokenizer.vocab_size))
        token = int(np.random.default_rng((seed, len(tokens))).choice(choices))
        followed.accept(token)
        tokens.append(token)
    return tokens


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32))
def test_taking_what_is_forced_changes_nothing(real: tuple[Tokenizer, Compiler], seed: int) -> None:
    slow = draw_through(real, PERSON, seed, fast=False)
    fast = draw_through(real, PERSON, seed, fast=True)
    assert fast[: len(slow)] == slow[: len(fast)]


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32))
def test_a_state_is_a_function_of_its_tokens(real: tuple[Tokenizer, Compiler], seed: int) -> None:
    tokenizer, compiler = real
    tokens = draw_through(real, PERSON, seed, fast=True)
    first = compiler.compile(PERSON, tokenizer.eos_ids)
    for count, token in enumerate(tokens):
        again = compiler.compile(PERSON, tokenizer.eos_ids)
        for past in tokens[:count]:
            again.accept(past)
        assert state(again, tokenizer) == state(first, tokenizer)
        first.accept(token)


def state(followed: Matcher, tokenizer: Tokenizer) -> tuple[object, ...]:
    row = mask(followed, tokenizer.vocab_size)
    return followed.forced(), followed.exhausted, row.tobytes()


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32), place=st.integers(0, 20), wrong=st.booleans())
def test_a_look_ahead_leaves_no_trace(
    real: tuple[Tokenizer, Compiler], seed: int, place: int, wrong: bool
) -> None:
    tokenizer, compiler = real
    tokens = draw_through(real, PERSON, seed, fast=False)[: place + 6]
    one, other = (compiler.compile(PERSON, tokenizer.eos_ids) for _ in range(2))
    for token in tokens[:place]:
        one.accept(token)
        other.accept(token)
    guess = tuple(tokens[place:])
    for length in range(len(guess) + 1):
        ahead = mask(one, tokenizer.vocab_size, guess[:length])
        control = compiler.compile(PERSON, tokenizer.eos_ids)
        for token in (*tokens[:place], *guess[:length]):
            control.accept(token)
        assert np.array_equal(ahead, mask(control, tokenizer.vocab_size))
    if wrong:
        assert one.allows((*guess, *tokenizer.eos_ids, 0)) == len(guess)
        for token in guess[:2]:
            one.accept(token)
            other.accept(token)
    assert state(one, tokenizer) == state(other, tokenizer)


def test_behind_a_token_that_is_not_allowed_everything_is(
    real: tuple[Tokenizer, Compiler],
) -> None:
    tokenizer, compiler = real
    followed = compiler.compile(PERSON, tokenizer.eos_ids)
    wrong = tokenizer.encode_within("x")
    assert (mask(followed, tokenizer.vocab_size, tuple(wrong)) == 0xFFFFFFFF).all()


class Exhausted:
    """An LLMatcher that ran out of what it may spend, which then says that only an end may come."""

    def compute_ff_tokens(self) -> list[int]:
        return []

    def is_stopped(self) -> bool:
        return False

    def is_error(self) -> bool:
        return True

    def get_error(self) -> str:
        return "fuel exhausted\nand more"

    def unsafe_compute_mask_ptr(self, address: int, size: int) -> None: ...

    def try_consume_tokens(self, tokens: list[int]) -> int:
        return 0


def test_what_grows_too_costly_is_an_error_not_an_end() -> None:
    followed = Matcher(cast(LLMatcher, Exhausted()), [1], 64)
    with pytest.raises(GrammarError, match=r"fuel exhausted$"):
        followed.mask(np.zeros(2, np.uint32))
    with pytest.raises(GrammarError):
        followed.accept(2)


class Failing(Exhausted):
    """An LLMatcher with a fault of its own."""

    def is_error(self) -> bool:
        return False

    def compute_ff_tokens(self) -> list[int]:
        raise RuntimeError("panic: /home/someone/src/parser.rs")


def test_a_failure_of_llguidance_is_a_grammar_error_without_its_details() -> None:
    followed = Matcher(cast(LLMatcher, Failing()), [1], 64)
    with pytest.raises(GrammarError) as failed:
        followed.mask(np.zeros(2, np.uint32))
    assert "llguidance failed" in failed.value.reason
    assert "someone" not in failed.value.reason


@pytest.mark.parametrize("text", ["\ud800", "start: \0", "", '{"grammars": [{}]}', "start: @x"])
def test_a_text_that_is_no_grammar_is_a_grammar_error(text: str) -> None:
    with pytest.raises(GrammarError):
        matcher(Grammar(text))


def test_a_long_answer_is_taken_again_without_masks() -> None:
    """As a request does that another worker resumes. It would end after some 10,000 characters."""
    texts = {
        f"t{n}": {"type": "string", "maxLength": 8_000, "pattern": f"^[0-9{n}]*$"} for n in "abc"
    }
    followed = matcher(json_schema({"properties": texts, "required": list(texts)}))
    digits = "".join(map(str, range(3_000)))[:8_000]
    written = json.dumps(dict.fromkeys(texts, digits), separators=(",", ":"))
    for token in tokenizer().encode_within(written):
        followed.accept(token)
    assert followed.exhausted
