from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from headrace.grammar import text_bound
from headrace.grammar.errors import GrammarError
from headrace.grammar.forms import behind, json_rule, json_schema, lark
from headrace.grammar.grammar import Grammar
from headrace.grammar.schemas import check_schema, strings
from headrace.grammar.text_bound import Marks, TextBound
from headrace.text.reasoning import Thinking
from headrace.text.tools.format import FORMATS
from headrace.text.tools.grammar import answer_behind_thoughts, calls_grammar
from tests.grammar.following import accepts, follow, matcher, walk

MOST = 16_500
NUMBERS = "".join(map(str, range(10_000)))
BOUNDED = {"type": "string", "maxLength": MOST}


def fields(**properties: Any) -> Grammar:
    return json_schema(closed(**properties))


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def within(cut: int | None, lead: str) -> None:
    """Cut with the first character beyond the bound."""
    assert cut == len(lead) + MOST + 1


def test_the_text_with_the_bound_alone_is_cut() -> None:
    grammar = fields(a=BOUNDED, b={"type": "string"})
    assert grammar.bound == MOST
    followed = matcher(grammar)
    whole = f'{{"a":"{NUMBERS[:MOST]}","b":"{NUMBERS[: MOST + 2000]}"}}'
    assert follow(followed, whole) is None
    assert followed.exhausted
    within(follow(matcher(grammar), f'{{"a":"{NUMBERS[: MOST + 2000]}'), '{"a":"')


@pytest.mark.parametrize("character", ["é", "\n", '"'])
def test_an_escape_or_a_long_character_counts_once(character: str) -> None:
    grammar = json_schema(BOUNDED)
    text = (NUMBERS[:99] + character) * (MOST // 100)
    assert len(text) == MOST
    followed = matcher(grammar)
    assert follow(followed, json.dumps(text, ensure_ascii=False)) is None
    assert followed.exhausted
    assert follow(matcher(grammar), json.dumps(text + "x", ensure_ascii=False)) is not None


def test_prose_before_a_call_is_not_cut_and_a_text_of_the_call_is() -> None:
    rule = json_rule(closed(a=BOUNDED, b={"type": "string"}), spaced=True)
    text = calls_grammar(
        FORMATS["hermes"], {"f": rule.text}, must=False, several=True, control=lambda _: None
    )
    followed = matcher(Grammar(text, free=True, bound=rule.bound))
    call = '<tool_call>\n{"name": "f", "arguments": {"a": "'
    assert follow(followed, NUMBERS[: MOST + 2000] + call) is None
    within(follow(followed, NUMBERS[: MOST + 2000]), "")


def test_thoughts_before_a_form_are_not_cut() -> None:
    thinking = Thinking("<think>", "</think>", begun=False)
    grammar = behind(answer_behind_thoughts(thinking), fields(a=BOUNDED))
    assert grammar.bound == MOST
    followed = matcher(grammar)
    assert follow(followed, f'<think>{NUMBERS[: MOST + 2000]}</think>{{"a":"') is None
    within(follow(followed, NUMBERS[: MOST + 2000]), "")


def test_a_long_text_leaves_only_the_branches_without_a_bound() -> None:
    free = {"type": "string"}
    grammar = json_schema(
        {"anyOf": [closed(t=BOUNDED, k={"const": "a"}), closed(t=free, k={"const": "b"})]}
    )
    text = f'{{"t":"{NUMBERS[: MOST + 100]}","k":"'
    followed = matcher(grammar)
    assert follow(followed, text + 'b"}') is None
    assert followed.exhausted
    followed = matcher(grammar)
    assert follow(followed, text + "a") == len(text) + 1
    assert not followed.exhausted


def test_a_text_by_a_pattern_is_cut_at_its_bound() -> None:
    grammar = json_schema({**BOUNDED, "pattern": "^[0-9]*$"})
    within(follow(matcher(grammar), f'"{NUMBERS[: MOST + 100]}'), '"')


def test_the_least_of_several_bounds_counts_wherever_it_stands() -> None:
    inner = {"$ref": "#/$defs/t"}
    for schema in (
        {"items": inner},
        {"prefixItems": [inner]},
        {"additionalProperties": inner},
        {"patternProperties": {"^x": inner}},
        {"properties": {"a": {"maxLength": 90_000}, "b": inner}},
        {"anyOf": [{"type": "integer"}, inner]},
        {"oneOf": [{"type": "integer"}, inner]},
        {"not": {"not": inner}},
        {"if": {"type": "string"}, "then": inner},
    ):
        assert check_schema({**schema, "$defs": {"t": BOUNDED}}).bound == MOST


def test_a_bound_beyond_64_bits_travels_to_a_worker() -> None:
    grammar = json_schema({"type": "string", "maxLength": 10**30})
    assert grammar.bound is not None
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(grammar), type=Grammar) == grammar


def test_a_bound_that_is_counted_or_of_no_text_is_not_held_beside() -> None:
    assert json_schema({"type": "string", "maxLength": 16_384}).bound is None
    assert json_schema({"type": "integer", "maxLength": 90_000}).bound is None


def test_a_constant_that_reads_like_a_bound_is_none() -> None:
    constant = {"x-maxLength": 1, "n": "abcdef"}
    for value in (constant, 'x-maxLength": 3', [constant]):
        grammar = json_schema({"enum": [value]})
        assert grammar.bound is None
        assert accepts(grammar, json.dumps(value, separators=(",", ":")))
    named = fields(**{"x-maxLength": {"const": 3}})
    assert named.bound is None
    assert accepts(named, '{"x-maxLength":3}')
    assert json_schema({"type": "string", "x-maxLength": 3}).bound is None


def test_a_bound_that_is_not_counted_is_refused_within_a_lark_grammar() -> None:
    with pytest.raises(GrammarError, match="up to 16384"):
        lark(f"start: %json {json.dumps(BOUNDED)}")


class Bounded:
    """A matcher at a text with a bound: it takes none of the marks."""

    def try_consume_tokens(self, tokens: list[int]) -> int:
        return 0


def exceeded(pieces: list[bytes], most: int) -> bool:
    bound = TextBound(pieces.__getitem__, most, Marks([0], [0]))
    for token in range(len(pieces)):
        bound.take(token, Bounded)  # type: ignore[arg-type]
    return bound.exceeded


def test_a_token_that_passes_the_bound_and_closes_the_text_is_cut() -> None:
    assert exceeded([b'"', b"12345", b'678"}'], 7)
    assert not exceeded([b'"', b"12345", b'67"}'], 7)


@given(st.lists(st.sampled_from(['"', "\\", "é", "x", "😀", ",", "\n"]), min_size=5, max_size=30))
def test_the_characters_of_a_text_are_counted_exactly(parts: list[str]) -> None:
    text = "".join(parts)
    written = json.dumps(["first", text], ensure_ascii=False)[:-2].encode()
    pieces = [bytes([byte]) for byte in written]
    assert not exceeded(pieces, len(text))
    assert exceeded(pieces, len(text) - 1)


SMALL = {"type": "string", "maxLength": 4}
FREE = {"type": "string"}
MIXED: list[dict[str, Any]] = [
    closed(a=SMALL, b=FREE),
    closed(a={**SMALL, "pattern": "^[a-c]*$"}, b={**FREE, "maxLength": 7}),
    {"anyOf": [closed(t=SMALL, k={"const": "a"}), closed(t=FREE, k={"const": "b"})]},
    {"anyOf": [closed(t=SMALL, u=FREE), closed(t=FREE, u=SMALL)]},
    {"type": "array", "items": {"anyOf": [SMALL, {"type": "integer"}]}, "maxItems": 5},
    {"allOf": [FREE, {"minLength": 2}, SMALL]},
    {"type": "object", "additionalProperties": SMALL, "maxProperties": 3},
    {"properties": {"a": True}, "if": {"required": ["b"]}, "then": {"properties": {"a": SMALL}}},
]


@pytest.mark.parametrize("schema", MIXED, ids=range(len(MIXED)))
def test_what_is_not_cut_satisfies_its_schema(
    schema: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strings, "MAX_LENGTH", 3)
    monkeypatch.setattr(text_bound, "MARGIN", 2)
    grammar = json_schema(schema)
    assert grammar.bound == 4
    validator = Draft202012Validator(schema)
    documents = [walk(grammar, seed) for seed in range(120)]
    ended = [document for document in documents if document is not None]
    assert len(ended) > 5
    for document in ended:
        validator.validate(json.loads(document))
