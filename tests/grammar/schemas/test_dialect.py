"""Each draft by its own meaning, judged by `jsonschema` as well."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from jsonschema.protocols import Validator

from headrace.grammar.errors import GrammarError
from headrace.grammar.schemas import check_schema
from tests.grammar.test_schema import takes

DRAFTS: dict[int, tuple[str, type[Validator]]] = {
    4: ("http://json-schema.org/draft-04/schema#", jsonschema.Draft4Validator),
    6: ("http://json-schema.org/draft-06/schema#", jsonschema.Draft6Validator),
    7: ("http://json-schema.org/draft-07/schema", jsonschema.Draft7Validator),
    2019: ("https://json-schema.org/draft/2019-09/schema", jsonschema.Draft201909Validator),
    2020: ("https://json-schema.org/draft/2020-12/schema", jsonschema.Draft202012Validator),
}


def of(draft: int, schema: dict[str, Any]) -> dict[str, Any]:
    return {"$schema": DRAFTS[draft][0], **schema}


@pytest.mark.parametrize(
    ("schema", "drafts"),
    [
        ({"minimum": 1, "exclusiveMinimum": True, "type": "integer"}, [4]),
        ({"minimum": 1, "exclusiveMinimum": False, "type": "integer"}, [4]),
        ({"maximum": 3, "exclusiveMaximum": True}, [4]),
        ({"exclusiveMinimum": 1}, [6, 7, 2019, 2020]),
        ({"const": 1}, [4, 6, 7, 2019, 2020]),
        ({"contains": {"const": 1}}, [4, 6, 7, 2019, 2020]),
        ({"propertyNames": {"enum": ["a"]}}, [4, 6, 7, 2019, 2020]),
        ({"if": {"type": "array"}, "then": {"minItems": 2}}, [4, 6, 7, 2019, 2020]),
        ({"dependentRequired": {"a": ["b"]}}, [4, 6, 7, 2019, 2020]),
        ({"dependencies": {"a": ["b"]}}, [4, 6, 7]),
        ({"dependencies": {"a": {"required": ["b"]}}}, [4, 6, 7]),
        ({"prefixItems": [{"const": 1}]}, [4, 6, 7, 2019, 2020]),
        ({"items": [{"type": "integer"}], "additionalItems": False}, [4, 6, 7, 2019]),
        ({"items": {"type": "integer"}, "additionalItems": False}, [4, 6, 7, 2019, 2020]),
        ({"additionalItems": False}, [4, 6, 7, 2019, 2020]),
        ({"minContains": 2, "contains": {"const": 1}}, [6, 7, 2019, 2020]),
        ({"unevaluatedProperties": False, "properties": {"a": {}}}, [4, 6, 7, 2019, 2020]),
        ({"nullable": True, "type": "string"}, [4, 6, 7, 2019, 2020]),
        ({"strict": True, "javaType": "A", "example": {}, "xml": {}}, [4, 6, 7, 2019, 2020]),
        (
            {
                "$ref": "#/definitions/s",
                "minItems": 3,
                "definitions": {"s": {"type": ["array", "string"]}},
            },
            [4, 6, 7, 2019, 2020],
        ),
        (
            {"properties": {"a": {"$ref": "n"}}, "definitions": {"n": {"id": "n", "type": "null"}}},
            [4],
        ),
        (
            {
                "id": "http://x.example/root.json",
                "properties": {"a": {"$ref": "n.json#/definitions/i"}},
                "definitions": {"n": {"id": "n.json", "definitions": {"i": {"type": "null"}}}},
            },
            [4],
        ),
        (
            {
                "$id": "http://x.example/root.json",
                "properties": {"a": {"$ref": "n.json"}, "b": {"$ref": "#n"}},
                "definitions": {
                    "n": {"$id": "n.json", "type": "null"},
                    "m": {"$id": "#n", "type": "integer"},
                },
            },
            [6, 7],
        ),
        (
            {
                "$id": "http://x.example/root.json",
                "properties": {"a": {"$ref": "n.json#here"}, "b": {"$ref": "#n"}},
                "$defs": {
                    "n": {"$id": "n.json", "$defs": {"k": {"$anchor": "here", "type": "null"}}},
                    "m": {"$anchor": "n", "type": "integer"},
                },
            },
            [2019, 2020],
        ),
        ({"properties": {"a": {"$recursiveRef": "#"}}, "type": "object"}, [2019]),
        (
            {
                "$dynamicAnchor": "node",
                "type": "object",
                "properties": {"a": {"$dynamicRef": "#node"}},
            },
            [2020],
        ),
        ({"items": {"id": "#a", "$id": "b", "format": "unheard-of"}}, [4, 6, 7, 2019, 2020]),
    ],
)
def test_a_draft_has_its_own_meaning(schema: dict[str, Any], drafts: list[int]) -> None:
    values: list[object] = [
        *(0, 1, 2, 3, 4, 1.5, None, True, "x", [], [1], [1, "x"], [2, 1], [1, 1, 1], {}),
        *(
            {"a": 1},
            {"a": None},
            {"a": {}},
            {"a": {"a": 1}},
            {"a": 1, "b": 1},
            {"b": None},
            {"b": 1},
        ),
    ]
    for draft in drafts:
        declared = of(draft, schema)
        validator = DRAFTS[draft][1](declared)
        for value in values:
            if isinstance(value, list) and "contains" in schema and len(value) == 3:
                continue
            assert takes(declared, value) == validator.is_valid(value), (draft, value)


@pytest.mark.parametrize(
    ("schema", "value", "valid"),
    [
        ({"type": "string", "nullable": True}, None, True),
        ({"type": ["string"], "nullable": True}, None, True),
        ({"type": "string", "nullable": False}, None, False),
        ({"type": "string", "nullable": True, "enum": ["a"]}, None, False),
        ({"enum": ["a"], "nullable": True}, None, False),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, 1, False),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, 2, True),
        ({"items": [{"const": 1}], "additionalItems": False}, [1, 2], False),
        ({"type": "object", "strict": True, "properties": {"a": {"xml": {}}}}, {"a": 1}, True),
        ({"type": "object", "dependencies": {"a": ["b"]}}, {"a": 1}, False),
    ],
)
def test_without_a_draft_older_words_and_openapis_are_understood(
    schema: dict[str, Any], value: object, valid: bool
) -> None:
    assert takes(schema, value) == valid


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"$ref": "http://json-schema.org/draft-07/schema#"}, "$.$ref"),
        ({"items": {"$ref": "other.json"}}, "$.items.$ref"),
        ({"items": {"$ref": "#nowhere"}}, "$.items.$ref"),
        ({"items": {"$ref": "urn:a:b#/c"}}, "$.items.$ref"),
        ({"items": {"$ref": "http://[bad"}}, "$.items.$ref"),
        ({"items": {"$ref": 3}}, "$.items.$ref"),
        ({"$id": "urn:x:y", "items": {"$ref": "#/$defs/a"}}, "$.items.$ref"),
        (
            {
                "$id": "http://x.example/a",
                "$defs": {
                    "b": {"$id": "b", "$dynamicAnchor": "t", "items": {"$dynamicRef": "#t"}},
                    "c": {"$dynamicAnchor": "t"},
                },
                "$ref": "b",
            },
            "$.$defs.b.items.$dynamicRef",
        ),
    ],
)
def test_a_reference_that_leads_out_or_nowhere_is_refused(schema: Any, path: str) -> None:
    with pytest.raises(GrammarError) as refused:
        check_schema(schema)
    assert refused.value.path == path


def test_a_definition_without_a_word_for_it_can_be_referred_to() -> None:
    assert takes({"$ref": "#/mine/0", "mine": [{"const": 1}]}, 1)
    assert takes({"$id": "urn:x:y", "$ref": "#/$defs/a", "$defs": {"a": {"const": 1}}}, 1)


def test_an_id_that_is_no_address_names_nothing() -> None:
    schema = {"$id": "http://x.example/a", "items": {"$id": "http://[bad", "const": 1}}
    assert takes(schema, [1])
    assert not takes(schema, [2])


def test_an_id_in_a_constant_is_no_id() -> None:
    schema = {"$ref": "http://x.example/a", "enum": [{"$id": "http://x.example/a"}]}
    with pytest.raises(GrammarError):
        check_schema(schema)
