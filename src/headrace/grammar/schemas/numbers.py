"""Bounds of numbers and what they are multiples of."""

from __future__ import annotations

import math
from typing import TypeGuard

from headrace.grammar.schemas.form import Form
from headrace.grammar.schemas.node import Node, Rewriter, keyed
from headrace.grammar.schemas.values import beside, number

MOST = 2**53
"""Up to which doubles count one by one. No larger numbers are written where there is a bound."""


def _beyond(value: object) -> TypeGuard[int | float]:
    return type(value) in (int, float) and abs(value) > MOST  # type: ignore[arg-type]


def _bound(node: Node, key: str, value: object) -> None:
    if _beyond(value):
        upper = key in ("maximum", "exclusiveMaximum")
        if (value > 0) == upper:
            key, value = _clamped(node, "Maximum" if upper else "Minimum", value)
    bound = number(value, node.at(key))
    if key.startswith("exclusive") and bound == int(bound) and _may_leak(node, key, bound):
        upwards = key == "exclusiveMinimum"
        node.out[f"x-{key}"] = bound  # what is excluded by the standard
        bound = beside(bound, upwards=upwards)
        key = "minimum" if upwards else "maximum"
    narrower = max if key.lower().endswith("minimum") else min
    node.out[key] = narrower(bound, node.out.get(key, bound))


def _clamped(node: Node, side: str, value: int | float) -> tuple[str, int]:
    """A bound that is closer, and what the standard excludes noted."""
    outer = math.inf if value > 0 else -math.inf
    node.out[f"x-exclusive{side}"] = math.nextafter(min(max(value, -(2**1000)), 2**1000), outer)
    return side.lower(), MOST if value > 0 else -MOST


def _may_leak(node: Node, key: str, bound: float) -> bool:
    """Whether an excluded whole number would be let through: where the other bound is less than
    one away. What is allowed begins a little beside it then."""
    others = ("maximum", "exclusiveMaximum")
    if key == "exclusiveMaximum":
        others = ("minimum", "exclusiveMinimum")
    bounds = [node.words[other] for other in others if other in node.words]
    return node.document.combines or any(
        abs(number(other, node.path) - bound) < 1 for other in bounds if not _beyond(other)
    )


def _multiple_of(node: Node, value: object) -> None:
    factor = number(value, node.at("multipleOf"))
    if factor <= 0:
        raise node.fault("multipleOf", "A multiple is of a number above 0.")
    digits = f"{factor:.10f}".rstrip("0").rstrip(".") if isinstance(factor, float) else ""
    if factor > 2**31 or (isinstance(factor, float) and float(digits or 0) != factor):
        raise node.fault("multipleOf", "Up to 2^31, and up to ten digits behind the point.")
    node.out["multipleOf"] = factor


def below(bound: int | float) -> Form:
    """Numbers less than that."""
    if bound == int(bound):
        least = beside(bound, upwards=False)
        return {"type": "number", "maximum": least, "x-exclusiveMaximum": bound}
    return {"type": "number", "exclusiveMaximum": bound}


def above(bound: int | float) -> Form:
    """Numbers greater than that."""
    if bound == int(bound):
        most = beside(bound, upwards=True)
        return {"type": "number", "minimum": most, "x-exclusiveMinimum": bound}
    return {"type": "number", "exclusiveMinimum": bound}


REWRITERS: dict[str, Rewriter] = {
    "minimum": keyed(_bound, "minimum"),
    "maximum": keyed(_bound, "maximum"),
    "exclusiveMinimum": keyed(_bound, "exclusiveMinimum"),
    "exclusiveMaximum": keyed(_bound, "exclusiveMaximum"),
    "multipleOf": _multiple_of,
}
