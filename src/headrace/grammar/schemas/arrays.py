"""Items of arrays."""

from __future__ import annotations

import math
from itertools import combinations, permutations
from typing import Any

from headrace.grammar.schemas.form import Form, any_of, listed, narrowed, not_of_type
from headrace.grammar.schemas.node import Node, Rewriter, keyed
from headrace.grammar.schemas.values import Constant, count, spelled

MAX_ITEMS = 100_000
MAX_LEAST_ITEMS = 2_000
MAX_ARRAYS = 1_000
"""Of different items, which are written out one by one."""
MAX_CONTAINED = 4
"""Where an item that an array contains may stand first."""


def _items(node: Node, schema: object) -> None:
    node.out["items"] = node.nested("items", schema)


def _prefix_items(node: Node, schemas: object) -> None:
    node.out["prefixItems"] = node.listed("prefixItems", schemas, may_be_empty=True)


def _least_items(node: Node, value: object) -> None:
    least = count(value, node.at("minItems"))
    if least > MAX_LEAST_ITEMS:
        raise node.fault("minItems", f"Supported up to {MAX_LEAST_ITEMS}.")
    node.out["minItems"] = least


def _most_items(node: Node, value: object) -> None:
    # What has fewer is allowed by the larger bound too.
    node.out["maxItems"] = min(count(value, node.at("maxItems")), MAX_ITEMS)


def _unique_items(node: Node, unique: object) -> None:
    if not isinstance(unique, bool):
        raise node.fault("uniqueItems", "Either true or false.")
    if not unique:
        return
    most = count(node.words.get("maxItems", MAX_ITEMS), node.at("maxItems"))
    if most <= 1:
        return
    values = None if "prefixItems" in node.words else _values(node.words.get("items"))
    if values is None:
        raise node.fault("uniqueItems", "Supported of items that are an enum or booleans.")
    least = count(node.words.get("minItems", 0), node.at("minItems"))
    for value in values:
        node.document.value(value, node.at("uniqueItems"))
    arrays = _different(values, least, min(most, len(values)))
    if arrays is None:
        raise node.fault("uniqueItems", "Supported of items that are an enum of few values.")
    different: Form = {"enum": arrays, "x-narrowed": True} if arrays else False
    node.parts.append(any_of([_not_arrays(node), different]))


def _not_arrays(node: Node) -> Form:
    return listed(node.words.get("type")) != ["array"] and not_of_type("array")


def _values(items: object) -> list[Any] | None:
    """The constants that an item can be, None where there is no list of them."""
    if not isinstance(items, dict):
        return None
    if isinstance(values := items.get("enum"), list):
        found = list(values)
    elif "const" in items:
        found = [items["const"]]
    elif items.get("type") == "boolean":
        found = [False, True]
    else:
        return None
    return [c.value for c in dict.fromkeys(map(Constant, found)) if spelled(c.value)]


def _different(values: list[Any], least: int, most: int) -> list[list[Any]] | None:
    """Arrays of different values: in every order where these are few, else in the order of the
    values; None where they are too many."""
    lengths = range(least, most + 1)
    for orders, number in ((permutations, math.perm), (combinations, math.comb)):
        if sum(number(len(values), length) for length in lengths) <= MAX_ARRAYS:
            return [list(some) for length in lengths for some in orders(values, length)]
    return None


def _contains(node: Node, schema: object) -> None:
    """The first that is contained is one of the first items, others come right behind it."""
    least = count(node.words.get("minContains", 1), node.at("minContains"))
    contained = node.nested("contains", schema)
    most = MAX_ITEMS
    if limited := "maxContains" in node.words:
        most = min(count(node.words["maxContains"], node.at("maxContains")), MAX_ITEMS)
    if least > MAX_LEAST_ITEMS:
        raise node.fault("minContains", f"Supported up to {MAX_LEAST_ITEMS}.")
    if most < least or (contained is False and least):
        node.parts.append(not_of_type("array"))
        return
    if contained is True:
        node.parts.append({"minItems": least, **({"maxItems": most} if limited else {})})
        return
    if not (least or limited):
        return
    other = node.complement("contains", schema) if limited else True
    if least == 0:
        node.parts.append(narrowed({"items": other}))
        return
    places = range(MAX_CONTAINED if least == 1 else 1)
    node.parts.append(
        narrowed(
            any_of(
                {
                    "prefixItems": [other] * place + [contained] * least,
                    "items": other,
                    "minItems": place + least,
                }
                for place in places
            )
        )
    )


def _number_contained(node: Node, key: str, value: object) -> None:
    """Part of contains, and without meaning where there is none."""
    count(value, node.at(key))


def _unevaluated_items(node: Node, schema: object) -> None:
    if vacuous(node, "unevaluatedItems", schema) or "items" in node.words:
        return
    if "contains" in node.words:
        raise node.fault("unevaluatedItems", "Not supported beside contains.")
    node.out["items"] = node.nested("unevaluatedItems", schema)


def vacuous(node: Node, key: str, schema: object) -> bool:
    """Whether an `unevaluated...` says nothing. Raises GrammarError where other schemas look at the
    same value, so that what they leave is not known."""
    if schema is True:
        return True
    if any(word in node.words for word in IN_PLACE):
        raise node.fault(key, "Not supported beside other schemas for the same value.")
    return False


IN_PLACE = ("$ref", "allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas")
"""Keywords whose schemas look at the same value."""

REWRITERS: dict[str, Rewriter] = {
    "items": _items,
    "prefixItems": _prefix_items,
    "minItems": _least_items,
    "maxItems": _most_items,
    "uniqueItems": _unique_items,
    "contains": _contains,
    "minContains": keyed(_number_contained, "minContains"),
    "maxContains": keyed(_number_contained, "maxContains"),
    "unevaluatedItems": _unevaluated_items,
}
