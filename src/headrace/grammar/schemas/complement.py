"""What does not satisfy a schema, as a form.

Of a schema whose keywords can each be denied: a value does not satisfy it where it fails one of
them. It is made of the schema itself, not of its form, since forms may describe less than their
schemas do.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from headrace.grammar.pattern import unlike_pattern
from headrace.grammar.schemas.form import (
    TYPES,
    Form,
    all_of,
    any_of,
    listed,
    narrowed,
    of_types,
    step,
    without,
)
from headrace.grammar.schemas.node import Node, keyed
from headrace.grammar.schemas.numbers import above, below
from headrace.grammar.schemas.values import Constant, count, kind, number, spelled

MAX_VALUES = 50
MAX_COUNT = 1_000

_SIZED = {"Length": "string", "Items": "array", "Properties": "object"}
"""The type of which a keyword `min...` or `max...` speaks."""


def complement(node: Node) -> Form:
    """Values that fail at least one keyword of the schema. Raises GrammarError."""
    words = node.words
    if {"enum", "const"} & words.keys() and "type" in words:
        return _enum(node, _of_types(words))
    return any_of([_denied(node, key, value) for key, value in words.items()])


def _of_types(words: dict[str, Any]) -> object:
    """The constants that are of the type which stands beside them: who fails the type is none of
    them. Whatever else stands there, they may fail too."""
    values = [words["const"]] if "const" in words else words["enum"]
    if not isinstance(values, list):
        return values
    types = listed(words["type"])
    kinds = {"whole" if t == "integer" else t for t in types}
    kinds |= {"whole", "broken"} if "number" in types else set()
    return [value for value in values if kind(value) in kinds]


def _denied(node: Node, key: str, value: Any) -> Form:
    if key in _DENIALS:
        return _DENIALS[key](node, value)
    if key in _PARTS and value in (True, {}):
        return False  # nothing fails it
    raise node.fault(key, "That this is not so can't be enforced.")


def _type(node: Node, types: object) -> Form:
    excluded = set(listed(types))
    if not excluded or not excluded <= set(TYPES):
        raise node.fault("type", f"A type is one of {', '.join(TYPES)}, or a list of them.")
    broken = "integer" in excluded and "number" not in excluded
    if broken:  # that a number is not whole can't be enforced
        excluded.add("number")
    form = of_types(t for t in TYPES if t not in excluded and t != "integer")
    return narrowed(form) if broken else form


def _enum(node: Node, values: object) -> Form:
    if not isinstance(values, list) or len(values) > MAX_VALUES:
        raise node.fault("enum", f"What is not in it is supported of up to {MAX_VALUES} values.")
    for value in values:
        node.document.value(value, node.at("enum"))
    constants: list[Any] = [constant.value for constant in dict.fromkeys(map(Constant, values))]
    of_kind = {name: [v for v in constants if kind(v) == name] for name in ("string", "boolean")}
    other: list[Form] = [
        False if None in constants else {"type": "null"},
        _other_numbers([v for v in constants if kind(v) in ("whole", "broken")]),
        {"enum": left}
        if (left := [b for b in (False, True) if b not in of_kind["boolean"]])
        else False,
        _other_texts(of_kind["string"]),
    ]
    for name, empty, least in (("array", [], "minItems"), ("object", {}, "minProperties")):
        known = [value for value in constants if kind(value) == name]
        if any(value != empty for value in known):
            raise node.fault("enum", "That a value is not an array or object can't be enforced.")
        other.append({"type": name, least: 1} if known else {"type": name})
    return any_of(other)


def _other_texts(texts: list[str]) -> Form:
    known = [text for text in texts if spelled(text)]
    return (
        {"type": "string", "pattern": f"^(?:{unlike_pattern(known)})$"}
        if known
        else {"type": "string"}
    )


def _other_numbers(numbers: list[int | float]) -> Form:
    if not numbers:
        return {"type": "number"}
    inner = sorted(numbers)
    gaps = [all_of([above(low), below(high)]) for low, high in pairwise(inner)]
    return any_of([below(inner[0]), *gaps, above(inner[-1])])


def _required(node: Node, names: object) -> Form:
    return any_of(
        without(name) if spelled(name) else {"type": "object"}
        for name in node.strings("required", names)
    )


def _properties(node: Node, schemas: object) -> Form:
    failing: list[Form] = []
    for name, schema in node.mapping("properties", schemas).items():
        path = node.at("properties") + step(name)
        other = node.document.complement(schema, path, node.depth + 1, node.base)
        if spelled(name) and other is not False:
            failing.append({"type": "object", "properties": {name: other}, "required": [name]})
    return any_of(failing)


def _bound(node: Node, key: str, value: object) -> Form:
    bound = number(value, node.at(key))
    match key:
        case "minimum":
            return below(bound)
        case "maximum":
            return above(bound)
        case "exclusiveMinimum":
            return {"type": "number", "maximum": bound}
        case _:
            return {"type": "number", "minimum": bound}


def _least(node: Node, key: str, value: object) -> Form:
    least = count(value, node.at(key))
    if least > MAX_COUNT:
        raise node.fault(key, "That this is not so can't be enforced.")
    return {"type": _SIZED[key[3:]], f"max{key[3:]}": least - 1} if least else False


def _most(node: Node, key: str, value: object) -> Form:
    most = count(value, node.at(key))
    if most > MAX_COUNT or (key == "maxProperties" and most):
        raise node.fault(key, "That this is not so can't be enforced.")
    return {"type": _SIZED[key[3:]], f"min{key[3:]}": most + 1}


def _all_of(node: Node, schemas: object) -> Form:
    return any_of(_each(node, "allOf", schemas))


def _any_of(node: Node, schemas: object) -> Form:
    return all_of(_each(node, "anyOf", schemas))


def _one_of(node: Node, schemas: object) -> Form:
    """Values that satisfy none; those that satisfy two are left out."""
    return narrowed(all_of(_each(node, "oneOf", schemas)))


def _each(node: Node, key: str, schemas: object) -> list[Form]:
    if not isinstance(schemas, list):
        raise node.fault(key, f"{key} is a list of schemas.")
    return [
        node.document.complement(schema, f"{node.at(key)}[{place}]", node.depth + 1, node.base)
        for place, schema in enumerate(schemas)
    ]


def _reference(node: Node, word: str, target: object) -> Form:
    return node.document.unlike_reference(word, target, node.base, node.at(word), node.depth)


def _contains(node: Node, schema: object) -> Form:
    if {"minContains", "maxContains"} & node.words.keys():
        raise node.fault("contains", "That this is not so can't be enforced beside a number.")
    return {"type": "array", "items": node.complement("contains", schema)}


_PARTS = (
    "items",
    "additionalProperties",
    "propertyNames",
    "unevaluatedProperties",
    "unevaluatedItems",
    "uniqueItems",
)

_DENIALS: dict[str, Callable[[Node, Any], Form]] = {
    "type": _type,
    "enum": _enum,
    "const": lambda node, value: _enum(node, [value]),
    "required": _required,
    "properties": _properties,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": lambda node, schema: node.nested("not", schema),
    "contains": _contains,
    **{key: keyed(_reference, key) for key in ("$ref", "$dynamicRef", "$recursiveRef")},
    **{
        key: keyed(_bound, key)
        for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    },
    **{key: keyed(_least, key) for key in ("minLength", "minItems", "minProperties")},
    **{key: keyed(_most, key) for key in ("maxLength", "maxItems", "maxProperties")},
}
