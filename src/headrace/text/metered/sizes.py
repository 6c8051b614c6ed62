"""How large values are, as text and as lists."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from jinja2.utils import Namespace

SLOT = 8  # of an item in a list
NUMBER = 400  # characters of the longest float
PART = 32  # of a part of a value that is read whole
# Abstract types would be told much more slowly.
_SOME: dict[str, str] = {}
PARTS = (list, tuple, set, type(_SOME.keys()), type(_SOME.values()), type(_SOME.items()))
COUNTED = (dict, *PARTS)


def size_of(value: object, each: int, most: int) -> int:
    """Characters of a value as text, what it shares counted each time, with so many for each
    part. Looks at no more than `most` needs."""
    total, stack = each, [value]
    while stack and total <= most:
        item = stack.pop()
        if isinstance(item, str):
            total += len(item)
            continue
        if isinstance(item, dict):
            parts: Iterable[Any] = chain(item.keys(), item.values())
            total += 2 * each * len(item)
        elif isinstance(item, PARTS):
            parts = item
            total += each * len(item)
        elif isinstance(item, Namespace):
            parts = (object.__getattribute__(item, "_Namespace__attrs"),)
            total += each
        else:
            total += item.bit_length() if isinstance(item, int) else 0
            continue
        for part in parts:
            if type(part) is str:
                total += len(part)
            else:
                stack.append(part)
    return total


def length_of(value: object) -> int:
    """What it costs to go through a value once, its items untouched."""
    if isinstance(value, str):
        return len(value)
    return len(value) * SLOT if isinstance(value, COUNTED) else 0
