"""What one token of a grammar may cost is bounded, since a step waits for it."""

from __future__ import annotations

import time

import msgspec
import numpy as np
import pytest

from headrace.grammar import Grammar, GrammarError, gbnf, json_rule, json_schema, lark
from headrace.grammar.compiler import Compiler
from headrace.text.tokenizer import Tokenizer
from headrace.text.tools.format import FORMATS
from headrace.text.tools.grammar import calls_grammar
from tests.grammar.following import accepts, matcher
from tests.text.vocabularies import byte_level

MOST_SECONDS = 0.1
"""Of processor time. Some 5 ms are used, and without the limit half a second."""


def test_an_ambiguous_grammar_is_refused_before_a_token_takes_long() -> None:
    tokenizer = Tokenizer.from_gguf(byte_level("a" * 16))
    compiler = Compiler(tokenizer, tokenizer.vocab_size)
    matcher = compiler.compile(lark('start: e\ne: e e | e e e | "a"'), ())
    pieces = [tokenizer.piece(token) for token in range(tokenizer.vocab_size)]
    token = pieces.index(b"a" * 16)
    row = np.zeros((tokenizer.vocab_size + 31) // 32, np.uint32)
    worst = 0.0
    with pytest.raises(GrammarError, match="Too many items"):
        for _ in range(200):
            begun = time.thread_time()
            try:
                matcher.forced()
                matcher.mask(row)
                matcher.accept(token)
            finally:
                worst = max(worst, time.thread_time() - begun)
    assert worst < MOST_SECONDS


def wide(properties: int) -> dict[str, object]:
    """An object whose properties may all be missing."""
    return {
        "type": "object",
        "properties": {f"p{n}": {"enum": ["a", "b"]} for n in range(properties)},
        "additionalProperties": False,
    }


WIDE = wide(500)
DOCUMENTS: list[tuple[object, str]] = [
    (WIDE, '{"p0":"a","p250":"b","p499":"a"}'),
    (WIDE, "{}"),
    ({"type": "array", "items": WIDE}, '[{"p1":"a"},{},{"p499":"b"}]'),
    ({"anyOf": [wide(300), {"type": "array", "items": wide(300)}]}, '[{"p299":"b"}]'),
    ({**WIDE, "additionalProperties": {"type": "integer"}}, '{"p499":"b","free":1}'),
    ({"$defs": {"w": WIDE}, **wide(9), "properties": {"w": {"$ref": "#/$defs/w"}}}, '{"w":{}}'),
]


@pytest.mark.parametrize(("schema", "document"), DOCUMENTS)
def test_five_hundred_optional_properties_are_followed(schema: object, document: str) -> None:
    assert accepts(json_schema(schema), document)


def test_the_arguments_of_a_call_may_be_as_many() -> None:
    rules = {f"f{n}": json_rule(WIDE, spaced=True).text for n in range(4)}
    for must in (True, False):
        grammar = calls_grammar(
            FORMATS["hermes"], rules, must=must, several=True, control=lambda text: None
        )
        call = '<tool_call>\n{"name": "f3", "arguments": {"p0": "a", "p499": "b"}}\n</tool_call>'
        assert accepts(Grammar(grammar), call)


def test_a_callers_grammar_may_have_many_alternatives() -> None:
    words = gbnf("root ::= " + " | ".join(f'"word{n}"' for n in range(1_500)))
    assert accepts(words, "word1499")


def test_what_a_caller_wrote_is_held_to_less_though_its_text_is_known() -> None:
    schema = json_schema(WIDE)
    assert accepts(schema, "{}")
    with pytest.raises(GrammarError, match="Too many items"):
        matcher(msgspec.structs.replace(schema, ambiguous=True))
