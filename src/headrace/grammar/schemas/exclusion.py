"""Whether no document can satisfy two schemas at once, as far as that is plain to see.

Of forms (`form.py`). What a form excludes beyond its schema is marked there and not counted here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from headrace.grammar.errors import GrammarError
from headrace.grammar.schemas.form import Form, flattened
from headrace.grammar.schemas.values import Constant, kind

MAX_STEPS = 10_000
_MAX_DEPTH = 12

_KINDS = {
    "null": {"null"},
    "boolean": {"boolean"},
    "integer": {"whole"},
    "number": {"whole", "broken"},
    "string": {"string"},
    "array": {"array"},
    "object": {"object"},
}
_ALL_KINDS = frozenset().union(*_KINDS.values())


class Exclusion:
    """Looks at forms of one schema, and takes a bounded time for all of them."""

    def __init__(self, definitions: dict[str, Form]) -> None:
        self._definitions = definitions
        self._steps = 0

    def exclusive(self, one: Form, other: Form, beside: Form = True) -> bool:
        """Whether they plainly exclude each other for values that satisfy what is beside them.
        Raises GrammarError where finding out takes too long."""
        return self._apart([beside, one], [beside, other], 0)

    def _parts(self, forms: list[Form]) -> list[dict[str, Any]] | None:
        return flattened(forms, self._definitions.__getitem__, narrowed_count=False)

    def _apart(self, one: list[Form], other: list[Form], depth: int) -> bool:
        """one, other: schemas that hold together."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise GrammarError("It takes too long to see whether branches exclude each other.", "$")
        if depth > _MAX_DEPTH:
            return False
        left, right = self._parts(one), self._parts(other)
        if left is None or right is None:
            return True
        for parts, others in ((left, right), (right, left)):
            for part in parts:
                if "anyOf" in part:
                    rest = [p for p in parts if p is not part]
                    rest.append({key: part[key] for key in part if key != "anyOf"})
                    return all(
                        self._apart([*rest, branch], list(others), depth + 1)
                        for branch in part["anyOf"]
                    )
        return self._plain_apart(left, right, depth)

    def _plain_apart(
        self, left: list[dict[str, Any]], right: list[dict[str, Any]], depth: int
    ) -> bool:
        common = _kinds(left) & _kinds(right)
        mine, others = _values(left), _values(right)
        if mine is not None and others is not None and not any(v in others for v in mine):
            return True
        if common & {"whole", "broken"} and _numbers_apart(left, right):
            common -= {"whole", "broken"}
        if "object" in common and self._objects_apart(left, right, depth):
            common -= {"object"}
        return not common

    def _objects_apart(
        self, left: list[dict[str, Any]], right: list[dict[str, Any]], depth: int
    ) -> bool:
        needed = {name for part in (*left, *right) for name in part.get("required", ())}
        return any(
            self._apart(_property(left, name), _property(right, name), depth + 1)
            for name in sorted(needed)
        )


def _property(parts: list[dict[str, Any]], name: str) -> list[Form]:
    """What the value of that name must satisfy, as far as it is said by name."""
    found: list[Form] = []
    for part in parts:
        if name in part.get("properties", ()):
            found.append(part["properties"][name])
        elif "patternProperties" not in part and "additionalProperties" in part:
            found.append(part["additionalProperties"])
    values = _values(parts)
    if values and all(name not in value.members for value in values):
        found.append(False)
    return found


def _kinds(parts: list[dict[str, Any]]) -> set[str]:
    kinds = set(_ALL_KINDS)
    for part in parts:
        if "type" in part:
            types = [part["type"]] if isinstance(part["type"], str) else part["type"]
            kinds &= set().union(*(_KINDS[t] for t in types))
        if "enum" in part:
            kinds &= {kind(value) for value in part["enum"]}
    return kinds


def _values(parts: list[dict[str, Any]]) -> set[Constant] | None:
    """The constants that are left, None where there is no list of them."""
    lists = [{Constant(value) for value in part["enum"]} for part in parts if "enum" in part]
    return set.intersection(*lists) if lists else None


def _numbers_apart(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> bool:
    (low, low_open), (high, high_open) = _range(left)
    (low2, low2_open), (high2, high2_open) = _range(right)
    return _ends_before(high, high_open, low2, low2_open) or _ends_before(
        high2, high2_open, low, low_open
    )


def _ends_before(high: float, high_open: bool, low: float, low_open: bool) -> bool:
    return high < low or (high == low and (high_open or low_open))


def _range(parts: list[dict[str, Any]]) -> tuple[tuple[float, bool], tuple[float, bool]]:
    """The least and the most with whether they are excluded."""
    lows = [*_bounds(parts, "minimum", False), *_bounds(parts, "exclusiveMinimum", True)]
    highs = [*_bounds(parts, "maximum", False), *_bounds(parts, "exclusiveMaximum", True)]
    for part in parts:
        numbers = [v for v in part.get("enum", ()) if kind(v) in ("whole", "broken")]
        if numbers:
            lows.append((min(numbers), False))
            highs.append((max(numbers), False))
    low = max(lows, default=(-math.inf, False))
    high = min(((value, not opened) for value, opened in highs), default=(math.inf, True))
    return low, (high[0], not high[1])


def _bounds(parts: list[dict[str, Any]], key: str, opened: bool) -> Iterable[tuple[float, bool]]:
    """By what the standard excludes, where the form says a little more."""
    excluded = f"x-exclusive{key[0].upper()}{key[1:]}"
    if opened:
        told = [part[f"x-{key}"] for part in parts if f"x-{key}" in part]
    else:
        parts, told = [part for part in parts if excluded not in part], []
    return [(bound, opened) for bound in [*(part[key] for part in parts if key in part), *told]]
