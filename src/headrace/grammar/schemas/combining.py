"""Types, constants, and schemas that are combined for the same value."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.grammar.schemas.form import TYPES, Form, all_of, any_of
from headrace.grammar.schemas.node import Node, Rewriter, keyed
from headrace.grammar.schemas.values import spelled


def _type(node: Node, types: object) -> None:
    given = [types] if isinstance(types, str) else types
    if not isinstance(given, list) or not all(t in TYPES for t in given):
        raise node.fault("type", f"A type is one of {', '.join(TYPES)}, or a list of them.")
    if not given:
        raise node.fault("type", "There is no type left.")
    node.out["type"] = given[0] if len(given) == 1 else given


def _enum(node: Node, values: object) -> None:
    if not isinstance(values, list):
        raise node.fault("enum", "An enum is a list.")
    if not values:
        raise node.fault("enum", "An enum without values is satisfied by nothing.")
    for place, value in enumerate(values):
        node.document.value(value, f"{node.at('enum')}[{place}]")
    _one_of_values(node, "enum", values)


def _const(node: Node, value: object) -> None:
    node.document.value(value, node.at("const"))
    _one_of_values(node, "const", [value])


def _one_of_values(node: Node, key: str, values: list[object]) -> None:
    written = [value for value in values if spelled(value)]
    if not written:
        raise node.fault(key, "The value has a control character that is not written here.")
    node.parts.append({"enum": written})


def _reference(node: Node, word: str, target: object) -> None:
    node.parts.append(node.document.reference(word, target, node.base, node.at(word)))


def _all_of(node: Node, schemas: object) -> None:
    node.parts += node.listed("allOf", schemas)


def _any_of(node: Node, schemas: object) -> None:
    node.parts.append(any_of(node.listed("anyOf", schemas)))


@dataclass(frozen=True, slots=True)
class _Branch:
    form: Form
    node: Node
    schema: object
    path: str

    def outside(self) -> Form:
        node = self.node
        return node.document.complement(self.schema, self.path, node.depth + 1, node.base)


def _one_of(node: Node, schemas: object) -> None:
    forms = node.listed("oneOf", schemas)
    assert isinstance(schemas, list)
    branches = [
        _Branch(form, node, schema, f"{node.at('oneOf')}[{place}]")
        for place, (form, schema) in enumerate(zip(forms, schemas, strict=True))
    ]
    if len(branches) == 1:
        node.parts.append(branches[0].form)
    else:
        node.parts.append(node.document.choice([*branches], node.out, node.at("oneOf")))


def _not(node: Node, schema: object) -> None:
    node.parts.append(node.complement("not", schema))


def _if(node: Node, schema: object) -> None:
    if not {"then", "else"} & node.words.keys():
        return
    then, otherwise = (
        node.nested(key, node.words[key]) if key in node.words else True for key in ("then", "else")
    )
    held = node.nested("if", schema)
    node.parts.append(
        any_of([all_of([held, then]), all_of([node.complement("if", schema), otherwise])])
    )


def _consequence(node: Node, schema: object) -> None:
    """Part of a condition."""


REWRITERS: dict[str, Rewriter] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "$ref": keyed(_reference, "$ref"),
    "$dynamicRef": keyed(_reference, "$dynamicRef"),
    "$recursiveRef": keyed(_reference, "$recursiveRef"),
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "if": _if,
    "then": _consequence,
    "else": _consequence,
}
