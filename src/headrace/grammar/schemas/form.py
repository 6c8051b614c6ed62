"""What schemas are rewritten into, and how such forms are combined.

A form is a boolean or a dictionary of the few keywords that llguidance enforces to the letter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

Form = bool | dict[str, Any]

TYPES = ("null", "boolean", "number", "integer", "string", "array", "object")

NO_TEXT = "[a&&b]"
"""A pattern that nothing matches."""


def any_of(branches: Iterable[Form]) -> Form:
    """Values that satisfy at least one of the forms."""
    possible = [branch for branch in branches if branch is not False]
    if True in possible:
        return True
    if len(possible) < 2:
        return possible[0] if possible else False
    return {"anyOf": possible}


def all_of(parts: Iterable[Form]) -> Form:
    """Values that satisfy each of the forms."""
    needed = [part for part in parts if part is not True]
    if False in needed:
        return False
    if len(needed) < 2:
        return needed[0] if needed else True
    return {"allOf": needed}


def narrowed(form: Form) -> Form:
    """A form that describes less than it stands for, marked so that nobody takes what it leaves out
    for what the standard excludes (`exclusion`)."""
    return form if form is True else {"allOf": [form], "x-narrowed": True}


def flattened(
    forms: Iterable[Form], definition: Callable[[str], Form], *, narrowed_count: bool
) -> list[dict[str, Any]] | None:
    """The schemas that forms are made of, without `$ref` and `allOf`; None where one is false.

    definition: the form that a name stands for. narrowed_count: whether forms that `narrowed`
    marked are among them. A schema with neither word is the object that was given.
    """
    parts: list[dict[str, Any]] = []
    seen: set[str] = set()
    todo = list(forms)
    while todo:
        form = todo.pop()
        if form is False:
            return None
        if form is True or ("x-narrowed" in form and not narrowed_count):
            continue
        if "$ref" in form:
            name = referred(form)
            if name not in seen:
                seen.add(name)
                todo.append(definition(name))
        todo += form.get("allOf", ())
        if rest := form.keys() - {"$ref", "allOf"}:
            whole = len(rest) == len(form)
            parts.append(form if whole else {key: form[key] for key in form if key in rest})
    return parts


def referred(form: dict[str, Any]) -> str:
    """The name of the definition that a form's `$ref` leads to."""
    return str(form["$ref"]).rpartition("/")[2]


def without(name: str) -> Form:
    """Objects that don't have that name."""
    return {"type": "object", "properties": {name: False}}


def of_types(types: Iterable[str]) -> Form:
    """Values of one of the types."""
    kept = list(types)
    return {"type": kept[0] if len(kept) == 1 else kept} if kept else False


def not_of_type(excluded: str) -> Form:
    """Values of any type but one, which is not a number's."""
    return of_types(each for each in TYPES if each not in (excluded, "integer"))


def listed(types: object) -> list[str]:
    """The value of `type` as a list."""
    return [types] if isinstance(types, str) else list(types) if isinstance(types, list) else []


def step(key: str) -> str:
    """A member of an object, as a step of a JSON path."""
    plain = key.replace("_", "").replace("$", "").isalnum() and not key[0].isdigit()
    return f".{key[:100]}" if plain else f"[{json.dumps(key[:100], ensure_ascii=False)}]"
