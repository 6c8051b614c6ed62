from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.grammar.compiler import Compiler
from headrace.grammar.forms import json_schema, lark, regex
from headrace.grammar.grammar import Grammar
from headrace.grammar.matcher import Matcher
from headrace.grammar.watch import MAX_CYCLE, WINDOW
from tests.grammar.following import follow, matcher, tokenizer


def texts(most: int | None = None) -> dict[str, Any]:
    return {"type": "string"} if most is None else {"type": "string", "maxLength": most}


@pytest.mark.parametrize("cycle", ["a", "ab", "word ", "x" * (MAX_CYCLE - 1) + "y"])
def test_a_text_that_repeats_itself_without_end_is_cut(cycle: str) -> None:
    cut = follow(matcher(json_schema(texts())), f'"begin {cycle * 2000}')
    assert cut is not None
    assert WINDOW <= cut < WINDOW + 2 * MAX_CYCLE


def test_an_array_that_repeats_itself_without_end_is_cut() -> None:
    items = {"type": "array", "items": {"type": "object", "required": ["n"]}}
    assert follow(matcher(json_schema(items)), "[" + '{"n":"same"},' * 200)


def test_a_cycle_in_a_part_that_ends_by_itself_is_not_cut() -> None:
    bounded = {"type": "array", "items": {"type": "integer"}, "maxItems": 1500}
    assert follow(matcher(json_schema(bounded)), "[" + "1," * 1499 + "1]") is None
    assert follow(matcher(json_schema(texts(3000))), f'"{"a" * 3000}"') is None
    assert follow(matcher(regex("a{900}b")), "a" * 900 + "b") is None


def test_a_text_without_a_cycle_is_not_cut() -> None:
    counted = json.dumps([f"line {number}" for number in range(600)], separators=(",", ":"))
    assert follow(matcher(json_schema({"items": texts()})), counted) is None
    long = f'"{"x" * MAX_CYCLE}y"'
    assert follow(matcher(json_schema(texts())), long) is None


def test_free_text_may_repeat_itself() -> None:
    assert follow(matcher(Grammar(lark("start: /a*/").text, free=True)), "a" * 2000) is None


def test_the_watch_can_be_left_out() -> None:
    compiler = Compiler(tokenizer(), tokenizer().vocab_size, repetition=False)
    followed = compiler.compile(json_schema(texts()), [])
    assert isinstance(followed, Matcher)
    assert follow(followed, '"' + "a" * 2000) is None


@given(st.integers(0, 40), st.integers(1, MAX_CYCLE))
def test_the_cut_is_a_function_of_the_tokens(lead: int, length: int) -> None:
    text = "".join(chr(ord("a") + number % 26) for number in range(lead)) + "bc" * length
    cycle = "".join(chr(ord("a") + number % 25) for number in range(length))
    cuts = set()
    for guess in (0, 3):
        followed = matcher(regex("[a-z]*"))
        for count, token in enumerate(tokenizer().encode_within(text + cycle * 600), 1):
            if guess:
                followed.allows([token] * guess)
            followed.accept(token)
            if followed.cut:
                cuts.add(count)
                break
    assert len(cuts) == 1
