from __future__ import annotations

import itertools
import json
from typing import Any

import jsonschema
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.grammar.errors import GrammarError
from headrace.grammar.forms import json_object, json_schema
from headrace.grammar.schemas import MAX_BYTES, MAX_DEPTH, MAX_PROPERTIES, check_schema
from tests.grammar.following import accepts, matcher, tokenizer, walk


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def takes(schema: object, value: object) -> bool:
    return accepts(json_schema(schema), compact(value))


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"type": "object", "properties": {"k": {"pattern": "^(ab$"}}}, "$.properties.k.pattern"),
        ({"properties": {"v": {"$ref": "other.json#/$defs/v"}}}, "$.properties.v.$ref"),
        ({"properties": {"v": {"$ref": "#/$defs/v"}}}, "$.properties.v.$ref"),
        ({"items": {"nullable": "yes"}}, "$.items.nullable"),
        ({"anyOf": [True, {"required": 3}]}, "$.anyOf[1].required"),
        ({"items": [True, {"required": 3}]}, "$.items[1].required"),
        ({"dependencies": {"a": {"required": 3}}}, "$.dependencies.a.required"),
        ({"uniqueItems": True}, "$.uniqueItems"),
        ({"uniqueItems": True, "items": {"enum": list(range(50))}}, "$.uniqueItems"),
        ({"contains": {"pattern": "a"}, "maxContains": 1}, "$.contains.pattern"),
        ({"not": {"pattern": "a"}}, "$.not.pattern"),
        ({"if": {"format": "date"}, "then": False}, "$.if.format"),
        ({"oneOf": [{"pattern": "a"}, {"pattern": "b"}]}, "$.oneOf"),
        ({"minimum": 2**53 + 1}, "$.minimum"),
        ({"minimum": True}, "$.minimum"),
        ({"const": 2**63 + 1}, "$.const"),
        ({"enum": []}, "$.enum"),
        ({"enum": ["\0"]}, "$.enum"),
        ({"type": "strnig"}, "$.type"),
        ({"minLength": 10**9}, "$.minLength"),
        ({"minItems": 10**9}, "$.minItems"),
        ({"minItems": -1}, "$.minItems"),
        ({"minProperties": 2}, "$.minProperties"),
        ({"multipleOf": 0}, "$.multipleOf"),
        ({"$schema": "http://example.com/mine"}, "$.$schema"),
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, "$.$schema"),
        (
            {"$schema": "http://json-schema.org/draft-04/schema#", "exclusiveMinimum": 1},
            "$.exclusiveMinimum",
        ),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "items": []}, "$.items"),
        ({"$dynamicRef": "#a"}, "$.$dynamicRef"),
        ({"properties": {"a b": 3}}, '$.properties["a b"]'),
        ({"properties": {f"k{i}": True for i in range(MAX_PROPERTIES + 1)}}, "$.properties"),
        (False, "$"),
        ([], "$"),
        ({"title": "\ud800"}, "$"),
        ({"title": "x" * MAX_BYTES}, "$"),
        ({"minimum": float("inf")}, "$"),
    ],
)
def test_what_cannot_be_enforced_is_refused_where_it_stands(schema: Any, path: str) -> None:
    with pytest.raises(GrammarError) as refused:
        check_schema(schema)
    assert refused.value.path == path
    assert refused.value.reason


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"const": 1}]}}},
        {"type": "object", "properties": {"n": {"$ref": "#"}}, "required": ["n"]},
        {"type": "array", "items": {"$ref": "#"}, "minItems": 1},
        {
            "$ref": "#/$defs/a",
            "$defs": {
                "a": {
                    "type": "object",
                    "allOf": [{"properties": {"c": {"$ref": "#/$defs/a"}}}, {"required": ["c"]}],
                }
            },
        },
    ],
)
def test_what_needs_itself_is_refused(schema: Any) -> None:
    with pytest.raises(GrammarError):
        check_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 3, "maximum": 2},
        {"type": "string", "minLength": 3, "maxLength": 2},
        {"type": "string", "pattern": "^a$", "minLength": 2},
        {"allOf": [{"type": "string"}, {"type": "null"}]},
        {"type": "object", "properties": {"a": False}, "required": ["a"]},
        {"type": "string", "enum": [1, 2]},
        {"type": "object", "patternProperties": {"a": {"type": "null"}, "b": {"type": "string"}}},
    ],
)
def test_what_is_empty_or_ambiguous_does_not_compile(schema: Any) -> None:
    with pytest.raises(GrammarError):
        matcher(json_schema(schema))


def test_an_optional_part_that_needs_itself_never_comes() -> None:
    endless = {"type": "object", "properties": {"n": {"$ref": "#/$defs/e"}}, "required": ["n"]}
    schema = {"type": "object", "properties": {"e": {"$ref": "#/$defs/e"}}, "$defs": {"e": endless}}
    assert takes(schema, {})
    assert not takes(schema, {"e": {}})


@pytest.mark.parametrize(
    "branches",
    [
        [{"type": "integer"}, {"type": "string"}],
        [{"type": "integer"}, {"type": "number"}],
        [{"const": 1}, {"const": True}],
        [{"const": 1}, {"const": 1.0}, {"const": 2.5}],
        [{"type": "integer", "maximum": 3}, {"type": "number", "exclusiveMinimum": 3}],
        [{"maximum": 3}, {"minimum": 4}],
        [{"maximum": 3}, {"minimum": 3}, {"type": "string"}],
        [{"required": ["a"]}, {"required": ["b"]}],
        [{"required": ["a"]}, {"required": ["a", "b"]}, {"type": "null"}],
        [{"properties": {"a": {"const": 1}}}, {"properties": {"a": {"const": 2}}}],
        [{"properties": {"a": {"const": 1}}}, {"properties": {"b": {"const": 1}}}],
        [{"enum": [{"a": 1}, {}]}, {"type": "object", "required": ["a"]}],
        [{"type": "string", "maxLength": 1}, {"enum": ["x", "xy"]}],
        [{"not": {"type": "integer"}}, {"type": "number"}],
        [{"not": {"oneOf": [{"minimum": 2}, {"maximum": 3}]}}, {"const": 2.5}, {"type": "null"}],
        [
            {"if": {"oneOf": [{"required": ["c"]}, {"minLength": 2}]}, "else": False},
            {"minItems": 0},
        ],
        [{"contains": {"const": 1}, "type": "array"}, {"const": [0, 0, 0, 0, 1]}],
        [{"type": "integer", "format": "int8"}, {"type": "integer", "minimum": 4}],
        [{"type": "integer", "format": "int8"}, {"type": "integer", "minimum": 200}],
    ],
)
def test_one_of_is_satisfied_by_one_branch_alone(branches: Any) -> None:
    schema = {"oneOf": branches}
    grammar = _compiled(schema)
    if grammar is None:
        return
    valid = jsonschema.Draft202012Validator(schema).is_valid
    values: tuple[object, ...] = (1, 3, 4, 300, 2.5, "x", "xy", True, None, [1], [0, 0, 0, 0, 1])
    values = (*values, {"a": 1}, {"a": 1, "b": 1}, {"b": 1}, {})
    taken = [value for value in values if accepts(grammar, compact(value))]
    assert [value for value in taken if not valid(value)] == []
    assert taken or not any(map(valid, values))


def test_tagged_unions_by_reference() -> None:
    def kind(name: str, of: object) -> dict[str, Any]:
        properties = {"kind": {"const": name}, "of": of}
        return {"type": "object", "properties": properties, "required": ["kind", "of"]}

    schema = {
        "oneOf": [{"$ref": "#/$defs/leaf"}, {"$ref": "#/$defs/node"}],
        "discriminator": {"propertyName": "kind"},
        "$defs": {
            "leaf": kind("leaf", {"type": "integer"}),
            "node": kind("node", {"type": "array", "items": {"$ref": "#"}}),
        },
    }
    assert takes(schema, {"kind": "node", "of": [{"kind": "leaf", "of": 3}]})
    assert not takes(schema, {"kind": "leaf", "of": []})


def test_a_key_has_no_second_spelling() -> None:
    grammar = json_schema({"properties": {"a": {"const": 1}}, "type": "object"})
    assert accepts(grammar, '{"a":1,"b":2}')
    assert not accepts(grammar, '{"a":1,"\\u0061":2}')
    assert not accepts(grammar, '{"b":2,"a":3}')


def test_keys_come_in_the_order_of_the_schema() -> None:
    schema = {"type": "object", "properties": {"b": True, "a": True}, "required": ["a", "b"]}
    assert takes(schema, {"b": 1, "a": 2})
    assert not takes(schema, {"a": 2, "b": 1})
    assert takes({"allOf": [schema], "properties": {"c": True}}, {"b": 1, "a": 2, "c": 3})


def test_there_is_no_white_space_but_what_is_asked_for() -> None:
    schema = {"type": "object", "properties": {"a": {"items": {"type": "integer"}}}}
    assert accepts(json_schema(schema), '{"a":[1,2],"b":3}')
    assert not accepts(json_schema(schema), '{"a": [1,2]}')
    assert accepts(json_schema(schema, spaced=True), '{"a": [1, 2], "b": 3}')
    assert not accepts(json_schema(schema, spaced=True), '{"a":[1, 2]}')
    assert not accepts(json_object(), " {}")


@pytest.mark.parametrize(
    ("name", "texts", "others"),
    [
        (
            "date",
            ["2024-02-29", "2000-02-29", "0001-01-01", "0010-01-01", "0400-02-29", "1000-12-31"],
            ["2023-02-29", "1900-02-29", "2023-04-31", "0000-01-01", "0000-02-29"],
        ),
        ("time", ["23:59:59Z", "00:00:00.5+01:00"], ["24:00:00Z", "12:00:60Z", "12:00:00"]),
        (
            "date-time",
            ["2024-02-29T12:00:00Z"],
            ["2024-02-29 12:00:00Z", "2024-02-30T12:00:00Z", "0000-01-01T00:00:00-07:00"],
        ),
        ("duration", ["P1Y2M3D", "PT4H", "P2W"], ["P", "P1D2M", "PT"]),
        ("email", ["a.b@example.com"], ["a", "a..b@c.de", "@c.de"]),
        ("ipv4", ["127.0.0.1"], ["127.0.0.256", "127.0.0.01"]),
        ("ipv6", ["::", "::1", "1::", "1:2:3:4:5:6:7:8", "1::8"], ["1::2::3", "12345::", ":1"]),
        ("uuid", ["2eb8aa08-aa98-11ea-b4aa-73b441d16380"], ["2eb8aa08"]),
        ("uri", ["https://a.example/b?c#d", "urn:a:b"], ["//a/b", "a b:", "http:// x"]),
        ("byte", ["", "YQ==", "YWI="], ["YQ", "Y=="]),
    ],
)
def test_formats(name: str, texts: list[str], others: list[str]) -> None:
    schema = {"type": "string", "format": name}
    assert all(takes(schema, text) for text in texts)
    assert not any(takes(schema, text) for text in others)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "dependentRequired": {"a": ["b"]}},
        {"type": "object", "dependentSchemas": {"a": {"properties": {"b": {"const": 1}}}}},
        {"type": "object", "dependencies": {"a": ["b"], "b": {"required": ["c"]}}},
        {"type": "object", "propertyNames": {"maxLength": 1}, "required": ["a"]},
        {"type": "object", "propertyNames": {"pattern": "^[ab]$"}},
        {"type": "object", "propertyNames": {"enum": ["a", "c"]}},
        {"type": "object", "properties": {"a": True}, "unevaluatedProperties": False},
        {"not": {"required": ["a"]}},
        {"not": {"type": ["string", "object"]}},
        {"not": {"required": ["a", "b"]}},
        {"not": {"type": "integer"}},
        {"not": {"type": "integer", "enum": [1, "x"]}},
        {"not": {"oneOf": [{"type": "array"}, {"type": "string"}]}},
        {"propertyNames": {"anyOf": [{"maxLength": 1}, {"pattern": "^long$"}]}},
        {
            "type": "object",
            "oneOf": [
                {"properties": {"a": {"const": value}}, "required": ["a"]} for value in (1, 2)
            ],
        },
        {"not": {"properties": {"a": {"const": 1}}, "required": ["a"]}},
        {"not": {"enum": [1, "x", None, []]}},
        {"not": {"anyOf": [{"type": "string"}, {"maxItems": 1}]}},
        {"not": {"allOf": [{"type": "object"}, {"minProperties": 1}]}},
        {"not": {"not": {"type": "array"}}},
        {"not": {"contains": {"const": 1}}},
        {"if": {"properties": {"a": {"const": 1}}, "required": ["a"]}, "then": {"required": ["b"]}},
        {"if": {"type": "array"}, "then": {"minItems": 1}, "else": {"type": "object"}},
        {"contains": {"const": 1}},
        {"contains": {"const": 1}, "maxContains": 0, "minContains": 0},
        {"uniqueItems": True, "items": {"enum": [1, 2, "x"]}},
        {"uniqueItems": True, "maxItems": 1},
        {"oneOf": [{"required": ["a"]}, {"required": ["b"]}, {"required": ["c"]}]},
        {"patternProperties": {"^a": {"const": 1}, "^[ab]": {"const": 1}}},
        {"type": "object", "properties": {"a": {}, "b": {}}, "maxProperties": 1},
        {"if": True, "then": {"required": ["b"]}, "else": False},
        {"type": "object", "minProperties": 1},
        {"type": "object", "properties": {"a": {}}, "required": ["a"], "minProperties": 2},
        {"type": "object", "maxProperties": 2},
        {"prefixItems": [{"const": 1}], "items": False},
        {"contains": True, "minContains": 2},
        {"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"},
    ],
)
def test_rewritten_words_mean_the_same(schema: Any) -> None:
    try:
        grammar = json_schema(schema)
        matcher(grammar)
    except GrammarError:
        pytest.fail("refused")
    validator = jsonschema.Draft202012Validator(schema)
    values: list[object] = [1, "x", None, [], [1], [1, 2], ["x"]]
    for size in range(4):
        for names in itertools.combinations("abc", size):
            values += [dict.fromkeys(names, 1), dict.fromkeys(names, 2)]
    values.append({"long": 1})
    values += [["x", 2], [2, 1]]
    for value in values:
        orders = [value]
        if isinstance(value, dict):
            orders = [dict(order) for order in itertools.permutations(value.items())]
        taken = any(accepts(grammar, compact(order)) for order in orders)
        if "dependencies" in schema:
            validator = jsonschema.Draft7Validator(schema)
        assert taken == validator.is_valid(value), value


def test_drafts_differ() -> None:
    seven = {"$schema": "http://json-schema.org/draft-07/schema#"}
    pair = {"items": [{"const": 1}], "additionalItems": False}
    assert takes({**seven, **pair}, [1])
    assert not takes({**seven, **pair}, [1, 2])
    with pytest.raises(GrammarError):
        check_schema({"properties": {"a": seven}})


@pytest.mark.parametrize(
    ("bounds", "numbers"),
    [
        ({"minimum": -(2**63), "maximum": 2**63 - 1}, (0, 2**53, -(2**53))),
        ({"maximum": 10**400}, (5, -5)),
        ({"minimum": -1.7976931348623157e308, "maximum": 1.7976931348623157e308}, (5, -5)),
        ({"exclusiveMinimum": 0, "maximum": 2**63 - 1}, (1, 2**53)),
        ({"minimum": 0, "exclusiveMaximum": 2**64}, (0, 2**53)),
    ],
)
def test_bounds_beyond_doubles_that_leave_enough_are_taken(bounds: Any, numbers: Any) -> None:
    assert all(takes({"type": "integer", **bounds}, number) for number in numbers)
    overlapping = {"oneOf": [{"maximum": 2**63 - 1}, {"minimum": 2**60, "type": "number"}]}
    with pytest.raises(GrammarError):
        json_schema(overlapping)


def test_lengths_beyond_what_is_counted_are_taken() -> None:
    assert takes({"type": "string", "maxLength": 524_288}, "x" * 1000)
    assert takes({"type": "array", "maxItems": 10**9}, [1] * 100)
    with pytest.raises(GrammarError):
        check_schema({"type": "string", "minLength": 524_288})


def test_references_are_pointers_with_their_escapes() -> None:
    definitions = {"a/b": {"const": 1}, "c~d": {"const": 2}, "e%f": {"const": 3}}
    for pointer, value in (("a~1b", 1), ("c~0d", 2), ("e%25f", 3)):
        assert takes({"$ref": f"#/$defs/{pointer}", "$defs": definitions}, value)
    assert takes({"$id": "http://x.example/s", "items": {"$ref": "http://x.example/s#"}}, [[]])


def _deep(levels: int) -> Any:
    schema: Any = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


def _chain(kind: str, length: int) -> Any:
    definitions: dict[str, Any] = {"d0": {"type": "integer"}}
    for i in range(1, length):
        before = {"$ref": f"#/$defs/d{i - 1}"}
        definitions[f"d{i}"] = {
            "properties": {"type": "object", "properties": {"a": before, "b": before}},
            "anyOf": {"anyOf": [before, before]},
            "allOf": {"allOf": [before, before]},
            "oneOf": {"oneOf": [before, before]},
        }[kind]
    return {"$ref": f"#/$defs/d{length - 1}", "$defs": definitions}


HOSTILE: dict[str, Any] = {
    "deep": _deep(MAX_DEPTH + 1),
    "deeper": _deep(900),
    "wide": {"anyOf": [{"const": i} for i in range(10_000)]},
    "pattern": {"pattern": "^" + "(" * 20_000 + "a" + ")" * 20_000 + "$"},
    "repeats": {"pattern": "^((a{1000}){1000}){1000}$"},
    "length": {"minLength": 2**40},
    "items": {"minItems": 2**40},
    "not": {"not": {"allOf": [_chain("anyOf", 20), _chain("allOf", 20)]}},
    "if": {
        "allOf": [
            {"if": {"properties": {f"p{i}": {"const": i}}}, "then": {"required": [f"q{i}"]}}
            for i in range(40)
        ]
    },
    "oneOf": _chain("oneOf", 30),
    "product": {
        "allOf": [
            {"anyOf": [{"properties": {f"p{i}{j}": True}, "required": [f"p{i}{j}"]} for j in "ab"]}
            for i in range(14)
        ]
    },
    "names": {"properties": {f"k{i}": {"type": "string"} for i in range(5_000)}},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_schemas_are_refused(name: str) -> None:
    with pytest.raises(GrammarError):
        matcher(json_schema(HOSTILE[name]))


def test_references_that_double_are_looked_at_once() -> None:
    assert takes(_chain("allOf", 40), 3)
    assert takes(_chain("anyOf", 40), 3)


@pytest.mark.parametrize("length", [60, 900])
def test_long_chains_of_references_need_no_more_stack_than_there_is(length: int) -> None:
    assert takes(_chain("properties", length), {"a": {"b": {"a": {}}}})


_BOUNDS = st.sampled_from([-10, -1.5, -1, -0.5, 0, 0.0, 0.25, 0.5, 1, 1.5, 2, 9.5, 10, 99.95, 100])
_NUMBERS = [
    "0",
    "0.1",
    "0.25",
    "0.5",
    "0.75",
    "0.9",
    "1",
    "1.0",
    "1.2",
    "1.5",
    "2",
    "9.5",
    "9.9",
    "9.99",
    "10",
    "10.2",
    "99.9",
    "99.96",
    "100",
]
_LIMITS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")


@given(st.dictionaries(st.sampled_from(_LIMITS), _BOUNDS, min_size=1), st.booleans())
@example({"exclusiveMinimum": 0, "maximum": 0.5}, False)
@example({"minimum": -0.5, "exclusiveMaximum": 0}, False)
@example({"exclusiveMinimum": 0, "maximum": 0.5}, True)
def test_no_number_beyond_its_bounds_is_taken(bounds: dict[str, float], apart: bool) -> None:
    schema: dict[str, Any] = {"type": "number", **bounds}
    if apart:
        schema = {"type": "number", "allOf": [{key: bound} for key, bound in bounds.items()]}
    try:
        grammar = json_schema(schema)
        matcher(grammar)
    except GrammarError:
        return  # no number satisfies it
    validator = jsonschema.Draft202012Validator(schema)
    for number in [*_NUMBERS, *(f"-{number}" for number in _NUMBERS)]:
        if accepts(grammar, number):
            assert validator.is_valid(json.loads(number))


# --- against an independent validator

_LEAVES = st.one_of(
    st.sampled_from(
        [
            {"type": "string"},
            {"type": "null"},
            {"type": "boolean"},
            {"enum": ["red", 'qu"ote', 3, None]},
            {"type": "string", "pattern": "^[a-c]{1,3}$"},
            {"type": "string", "minLength": 1, "maxLength": 3},
            {"type": "number", "exclusiveMinimum": -1.5, "maximum": 2.25},
            {"type": "integer", "multipleOf": 3, "minimum": -10},
        ]
    ),
    st.tuples(st.integers(-1000, 1000), st.integers(0, 1000)).map(
        lambda two: {"type": "integer", "minimum": two[0], "maximum": two[0] + two[1]}
    ),
)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda properties, required, rest: {
            "type": "object",
            "properties": properties,
            "required": [name for name in properties if name in required],
            **({"additionalProperties": rest} if rest is not None else {}),
        },
        st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
        st.sets(st.sampled_from(["a", "b", "c"])),
        st.one_of(st.none(), st.just(False), inner),
    )


def _arrays(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda items, prefix, least, more: {
            "type": "array",
            "prefixItems": prefix,
            "items": items,
            "minItems": least,
            "maxItems": least + more,
        },
        inner,
        st.lists(inner, max_size=2),
        st.integers(0, 2),
        st.integers(0, 2),
    )


SCHEMAS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        _objects(inner),
        _arrays(inner),
        st.lists(inner, min_size=1, max_size=2).map(lambda branches: {"anyOf": branches}),
        st.tuples(_objects(inner), _objects(inner)).map(lambda two: {"allOf": list(two)}),
    ),
    max_leaves=6,
)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-1100, 1100),
        st.sampled_from([0.5, -1.5, 2.25, 2.5]),
        st.text('abcd"', max_size=4),
        st.sampled_from(["red", 'qu"ote', "abc"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), inner, max_size=4),
    ),
    max_leaves=6,
)


def _compiled(schema: object) -> Any:
    try:
        grammar = json_schema(schema)
        matcher(grammar)
    except GrammarError:
        return None
    return grammar


_COMBINED = st.recursive(
    SCHEMAS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda branches: {"oneOf": branches}),
        st.tuples(inner, inner).map(lambda two: {"allOf": [two[0], {"not": two[1]}]}),
        st.tuples(inner, inner, inner).map(
            lambda three: {"if": three[0], "then": three[1], "else": three[2]}
        ),
        st.tuples(inner, inner).map(lambda two: {"items": two[0], "contains": two[1]}),
        inner.map(lambda items: {"type": "array", "items": items, "uniqueItems": True}),
        _objects(inner).map(lambda part: {**part, "propertyNames": {"enum": ["a", "c"]}}),
        _objects(inner).map(lambda part: {**part, "maxProperties": 1}),
        st.tuples(_objects(inner), _objects(inner)).map(
            lambda two: {"allOf": [two[0], {"dependentSchemas": {"a": two[1]}}]}
        ),
    ),
    max_leaves=4,
)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"const": 1}}, "propertyNames": {"enum": ["a", "b"]}},
        {"properties": {"a": {"const": 1}}, "patternProperties": {"^(a|b)$": {"const": 1}}},
        {"patternProperties": {"^a$": {"const": 1}, "^(?:b)$": {"const": 1}}},
        {"patternProperties": {"^b$": {"const": 1}}, "properties": {"a": {"const": 1}}},
    ],
)
def test_where_all_names_have_come_the_object_ends(schema: Any) -> None:
    rest = {"const": 1} if "propertyNames" in schema else False
    closed = {"type": "object", "additionalProperties": rest, **schema}
    followed = matcher(json_schema(closed))
    for token in tokenizer().encode_within('{"a":1,"b":1'):
        followed.accept(token)
    assert followed.forced() == tokenizer().encode_within("}")


@settings(max_examples=300)
@given(st.one_of(SCHEMAS, _COMBINED), st.integers(0, 2**32))
def test_what_is_written_validates(schema: Any, seed: int) -> None:
    grammar = _compiled(schema)
    if grammar is not None and (written := walk(grammar, seed)) is not None:
        jsonschema.Draft202012Validator(schema).validate(json.loads(written))


@settings(max_examples=300)
@given(_COMBINED, VALUES)
def test_what_does_not_validate_cannot_be_written(schema: Any, value: Any) -> None:
    grammar = _compiled(schema)
    if grammar is not None and not jsonschema.Draft202012Validator(schema).is_valid(value):
        assert not any(accepts(grammar, text) for text in _spellings(value))


@settings(max_examples=200)
@given(SCHEMAS, VALUES)
def test_what_validates_can_be_written_and_nothing_else(schema: Any, value: Any) -> None:
    grammar = _compiled(schema)
    valid = jsonschema.Draft202012Validator(schema).is_valid(value)
    if grammar is None:
        return
    texts = _spellings(value)
    assert any(accepts(grammar, text) for text in texts) == valid


def _spellings(value: object) -> list[str]:
    """With the keys of objects in every order."""
    if isinstance(value, list):
        parts = itertools.product(*map(_spellings, value))
        return [f"[{','.join(some)}]" for some in itertools.islice(parts, 200)]
    if isinstance(value, dict):
        members = [[f"{compact(k)}:{text}" for text in _spellings(v)] for k, v in value.items()]
        orders = itertools.permutations(members)
        chosen = (some for order in orders for some in itertools.product(*order))
        return [f"{{{','.join(some)}}}" for some in itertools.islice(chosen, 500)]
    return [compact(value)]
