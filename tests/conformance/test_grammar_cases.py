"""Structured output by the ids of the cases: what schemas accept, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.grammar import GrammarError, gbnf, json_schema
from headrace.grammar.compiler import Compiler
from tests.grammar.following import accepts, matcher, tokenizer


def one(name: str, schema: object, *, rest: bool = False) -> dict[str, Any]:
    """An object with one required property."""
    form: dict[str, Any] = {"type": "object", "properties": {name: schema}, "required": [name]}
    return form if rest else {**form, "additionalProperties": False}


def judge(schema: object, accepted: list[str], rejected: list[str]) -> None:
    grammar = json_schema(schema)
    assert [text for text in accepted if not accepts(grammar, text)] == []
    assert [text for text in rejected if accepts(grammar, text)] == []


def test_so_02_a_pattern_that_does_not_compile() -> None:
    with pytest.raises(GrammarError) as refused:
        json_schema(one("k", {"type": "string", "pattern": "^(ab$"}))
    assert refused.value.path == "$.properties.k.pattern"


def test_so_03_bounds_beyond_32_bits() -> None:
    judge(
        one("n", {"type": "integer", "minimum": 0, "maximum": 30_000_000_000}),
        ['{"n":30000000000}', '{"n":0}'],
        ['{"n":30000000001}', '{"n":-1}'],
    )


def test_so_04_a_long_string_one_object_down() -> None:
    judge(
        one("p", one("s", {"type": "string", "maxLength": 2500})),
        ['{"p":{"s":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}}'],
        ['{"p":{"s":1}}', '{"p":{}}', '{"p":{"s":"' + "a" * 2501 + '"}}'],
    )


def test_so_05_a_pattern_inside_of_items() -> None:
    items = {"type": "string", "pattern": r"^(\d+|box:[A-Za-z0-9_-]+)$"}
    judge(
        one("ids", {"type": "array", "items": items, "minItems": 1, "maxItems": 3}),
        ['{"ids":["12"]}', '{"ids":["box:a_b-9","7"]}'],
        ['{"ids":[]}', '{"ids":["box:"]}', '{"ids":["1","2","3","4"]}'],
    )


def test_so_06_an_array_that_is_empty() -> None:
    judge(
        one("tags", {"type": "array", "items": {"type": "string"}, "maxItems": 0}),
        ['{"tags":[]}'],
        ['{"tags":["x"]}'],
    )


def test_so_08_lengths_count_what_is_written_between_escapes() -> None:
    judge(
        one("t", {"type": "string", "minLength": 1, "maxLength": 12}),
        [r'{"t":"a\nb"}', r'{"t":"\"q\""}', r'{"t":"\\"}', '{"t":"é"}', f'{{"t":"{"😀" * 12}"}}'],
        ['{"t":""}', '{"t":"aaaaaaaaaaaaa"}', f'{{"t":"{"😀" * 13}"}}'],
    )


@pytest.mark.parametrize(
    "target", ["other.json#/$defs/v", "/$defs/V", "https://example.com/schema", "#anchor", "#/nope"]
)
def test_so_09_references_that_lead_nowhere(target: str) -> None:
    with pytest.raises(GrammarError) as refused:
        json_schema(one("v", {"$ref": target}, rest=True))
    assert refused.value.path == "$.properties.v.$ref"


def test_so_10_a_range_across_zero() -> None:
    judge(
        one("x", {"type": "number", "minimum": -4, "maximum": 4}),
        ['{"x":-0.5}', '{"x":0}', '{"x":4}', '{"x":-4}', '{"x":3.25}'],
        ['{"x":4.5}', '{"x":-4.01}', '{"x":5}'],
    )


def test_so_11_bounds_that_are_excluded() -> None:
    judge(
        one("x", {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
        ['{"x":0.1}', '{"x":0.999}'],
        ['{"x":0}', '{"x":1}', '{"x":1.1}', '{"x":-0.1}'],
    )


def test_so_13_a_property_that_comes_late_is_still_itself() -> None:
    properties = {"a": {"const": "foo"}, "b": {"const": "bar"}}
    judge(
        {"type": "object", "properties": properties, "required": ["b"]},
        ['{"a":"foo","b":"bar"}', '{"b":"bar"}'],
        ['{"b":"bar","a":"BAD"}'],
    )


def test_so_15_a_schema_that_admits_no_document() -> None:
    number = {"type": "number"}
    schema = {
        "type": "object",
        "properties": {"r": number, "w": number},
        "required": ["r", "w"],
        "oneOf": [{"required": ["r"]}, {"required": ["w"]}],
    }
    with pytest.raises(GrammarError):
        matcher(json_schema(schema))


@pytest.mark.parametrize("deep", [100, 20_000, 60_000])
def test_so_18_parentheses(deep: int) -> None:
    with pytest.raises(GrammarError):
        json_schema({"type": "string", "pattern": "^" + "(" * deep + "a" + ")" * deep + "$"})
    with pytest.raises(GrammarError):
        gbnf("root ::= " + "(" * deep + '"a"' + ")" * deep)


def test_so_19_compiled_grammars_are_bounded() -> None:
    """Its bytes are counted; that memory levels off with them, and time does not grow, was
    measured with 10,000 schemas (docs/performance.md, "What a grammar costs")."""
    compiler = Compiler(tokenizer(), tokenizer().vocab_size, cache_bytes=2 << 20)
    for i in range(100):
        properties = {f"k{i}": {"type": "integer"}}
        compiler.compile(json_schema({"type": "object", "properties": properties}), [256])
    kept = compiler.kept
    assert kept.bytes <= 2 << 20
    assert 1 <= kept.grammars < 100


def test_so_22_there_is_no_white_space_to_loop_on() -> None:
    grammar, text = json_schema(one("note", {"type": "string"})), '{"note":"x"}'
    for white in " \n\t\r":
        for place in (0, 1, 7, 8, len(text) - 1, len(text)):
            assert not accepts(grammar, text[:place] + white + text[place:])
