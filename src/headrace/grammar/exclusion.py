"""Whether no document can satisfy two schemas at once, as far as that is plain to see.

Of schemas in the form of `schema.check_schema`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations
from typing import Any

from headrace.grammar.errors import GrammarError

MAX_STEPS = 10_000
_MAX_DEPTH = 12

_Form = bool | dict[str, Any]
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


def exclusive(branches: list[_Form], definitions: dict[str, _Form]) -> bool:
    """Whether each two of the branches exclude each other. Raises GrammarError where finding out
    takes too long."""
    look = _Exclusion(definitions)
    return all(look.apart([one], [other], 0) for one, other in combinations(branches, 2))


class _Exclusion:
    def __init__(self, definitions: dict[str, _Form]) -> None:
        self._definitions = definitions
        self._steps = 0

    def apart(self, one: list[_Form], other: list[_Form], depth: int) -> bool:
        """one, other: schemas that hold together."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise GrammarError("It takes too long to see whether branches exclude each other.", "$")
        if depth > _MAX_DEPTH:
            return False
        left, right = self._flat(one), self._flat(other)
        if left is None or right is None:
            return True
        for parts, others in ((left, right), (right, left)):
            for part in parts:
                if "anyOf" in part:
                    rest = [p for p in parts if p is not part]
                    rest.append({key: part[key] for key in part if key != "anyOf"})
                    return all(
                        self.apart([*rest, branch], list(others), depth + 1)
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
            self.apart(_property(left, name), _property(right, name), depth + 1)
            for name in sorted(needed)
        )

    def _flat(self, forms: list[_Form]) -> list[dict[str, Any]] | None:
        """The schemas they are made of, without references; None where one is false."""
        parts: list[dict[str, Any]] = []
        seen: set[str] = set()
        todo = list(forms)
        while todo:
            form = todo.pop()
            if form is False:
                return None
            if form is True:
                continue
            assert isinstance(form, dict)
            if "$ref" in form:
                name = form["$ref"].rpartition("/")[2]
                if name not in seen:
                    seen.add(name)
                    todo.append(self._definitions[name])
            todo += form.get("allOf", ())
            parts.append({key: form[key] for key in form if key not in ("$ref", "allOf")})
        return parts


def _property(parts: list[dict[str, Any]], name: str) -> list[_Form]:
    """What the value of that name must satisfy, as far as it is said by name."""
    found: list[_Form] = []
    for part in parts:
        if name in part.get("properties", ()):
            found.append(part["properties"][name])
        elif "patternProperties" not in part and "additionalProperties" in part:
            found.append(part["additionalProperties"])
    for value in _values(parts) or ():
        if isinstance(value, _Object) and name not in value.members:
            found.append(False)
    return found


def _kinds(parts: list[dict[str, Any]]) -> set[str]:
    kinds = set(_ALL_KINDS)
    for part in parts:
        if "type" in part:
            types = [part["type"]] if isinstance(part["type"], str) else part["type"]
            kinds &= set().union(*(_KINDS[t] for t in types))
        if "enum" in part:
            kinds &= {_kind(value) for value in part["enum"]}
    return kinds


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "whole" if float(value).is_integer() else "broken"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


class _Object:
    """A constant to compare, as JSON does: true is not 1, 1.0 is."""

    def __init__(self, value: object) -> None:
        self.key = _key(value)
        self.members = value.keys() if isinstance(value, dict) else ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Object) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _key(value: object) -> object:
    if isinstance(value, dict):
        return ("object", frozenset((name, _key(part)) for name, part in value.items()))
    if isinstance(value, list):
        return ("array", tuple(map(_key, value)))
    return ("boolean" if isinstance(value, bool) else "", value)


def _values(parts: list[dict[str, Any]]) -> set[_Object] | None:
    """The constants that are left, None where there is no list of them."""
    lists = [{_Object(value) for value in part["enum"]} for part in parts if "enum" in part]
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
        numbers = [v for v in part.get("enum", ()) if _kind(v) in ("whole", "broken")]
        if numbers:
            lows.append((min(numbers), False))
            highs.append((max(numbers), False))
    low = max(lows, default=(-math.inf, False))
    high = min(((value, not opened) for value, opened in highs), default=(math.inf, True))
    return low, (high[0], not high[1])


def _bounds(parts: list[dict[str, Any]], key: str, opened: bool) -> Iterable[tuple[float, bool]]:
    return ((part[key], opened) for part in parts if key in part)
