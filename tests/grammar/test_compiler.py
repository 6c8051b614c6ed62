from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from llguidance import LLParserLimits

from headrace.grammar import compiler as compiler_module
from headrace.grammar.compiler import Compiler
from headrace.grammar.errors import GrammarError
from headrace.grammar.forms import json_schema
from headrace.grammar.grammar import Grammar
from headrace.grammar.matcher import Matcher
from tests.grammar.following import tokenizer

LONG = '{"a":"' + "".join(map(str, range(1000)))
SHORT = '{"a":"x"}'


def text_of(most: int) -> Grammar:
    properties: dict[str, Any] = {"a": {"type": "string", "maxLength": most}}
    return json_schema({"type": "object", "properties": properties, "additionalProperties": False})


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    """Of grammars that have room for some 200 characters of a text whose length is counted."""
    monkeypatch.setattr(compiler_module, "_LIMITS", LLParserLimits(max_lexer_states=2_000))
    return Compiler(tokenizer(), tokenizer().vocab_size)


def follow(compiled: object, text: str) -> None:
    assert isinstance(compiled, Matcher)
    row = np.zeros(-(-tokenizer().vocab_size // 32), np.uint32)
    for token in tokenizer().encode_within(text):
        compiled.mask(row)
        compiled.accept(token)


def test_an_answer_that_exhausts_its_grammar_fails_no_later_answer(compiler: Compiler) -> None:
    grammar = text_of(1_000)
    with pytest.raises(GrammarError, match="too many states"):
        follow(compiler.compile(grammar, ()), LONG)
    for _ in range(2):
        follow(compiler.compile(grammar, ()), SHORT)
    assert compiler.kept.grammars == 1


def test_an_answer_to_a_grammar_that_counts_far_fails_no_other(compiler: Compiler) -> None:
    grammar = text_of(10_000)
    first, second = (compiler.compile(grammar, ()) for _ in range(2))
    with pytest.raises(GrammarError, match="too many states"):
        follow(first, LONG)
    follow(second, SHORT)
    assert compiler.kept.grammars == 0


def test_states_that_a_grammar_may_come_to_count_as_memory() -> None:
    sizes = []
    for most in (1, 1_000, 2_000):
        compiler = Compiler(tokenizer(), tokenizer().vocab_size)
        compiler.compile(text_of(most), ())
        sizes.append(compiler.kept.bytes)
    assert sizes[1] - sizes[0] > 3_000_000
    assert sizes[2] - sizes[1] > 3_000_000
