"""Numbers and constants in schemas."""

from __future__ import annotations

import math
from typing import Any

from headrace.grammar.errors import GrammarError
from headrace.grammar.pattern import UNSPELLED


def number(value: object, path: str) -> int | float:
    """A number that can be compared exactly, which doubles are. Raises GrammarError."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise GrammarError("A number is wanted.", path)
    try:
        whole = isinstance(value, int) or not math.isfinite(value)
        exact = not whole or (math.isfinite(value) and int(float(value)) == value)
    except OverflowError:
        exact = False
    if not exact:
        raise GrammarError("The number is no double, so it could not be compared exactly.", path)
    return value


def count(value: object, path: str) -> int:
    """A whole number of at least 0. Raises GrammarError."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise GrammarError("A whole number of at least 0 is wanted.", path)
    return value


def beside(whole: int | float, *, upwards: bool) -> float:
    """A number so close that nothing of interest lies between."""
    step = max(1e-9, abs(whole) * 1e-12)
    if step > 0.5:
        return math.nextafter(whole, math.inf if upwards else -math.inf)
    return whole + step if upwards else whole - step


def spelled(value: object) -> bool:
    """Whether our JSON has a spelling for all characters of a constant."""
    if isinstance(value, dict):
        return all(spelled(part) for item in value.items() for part in item)
    if isinstance(value, list):
        return all(map(spelled, value))
    return not isinstance(value, str) or UNSPELLED.isdisjoint(value)


class Constant:
    """A JSON value to compare and to hash as JSON does: true is not 1, but 1.0 is."""

    def __init__(self, value: object) -> None:
        self.value = value
        self.key = _key(value)
        self.members = value.keys() if isinstance(value, dict) else ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def kind(value: object) -> str:
    """The JSON type of a constant: "whole" and "broken" are those of numbers."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "whole" if float(value).is_integer() else "broken"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _key(value: Any) -> object:
    if isinstance(value, dict):
        return ("object", frozenset((name, _key(part)) for name, part in value.items()))
    if isinstance(value, list):
        return ("array", tuple(map(_key, value)))
    return ("boolean" if isinstance(value, bool) else "", value)
