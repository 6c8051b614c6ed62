"""Which parts of a schema no finite document can satisfy, because they need themselves.

Of forms (`form.py`). What is empty for other reasons (bounds that cross,
patterns that exclude each other) llguidance finds itself.
"""

from __future__ import annotations

from typing import Any

from headrace.grammar.errors import GrammarError
from headrace.grammar.schemas.form import TYPES, Form, flattened, referred

MAX_STEPS = 10_000
_MAX_DEPTH = 100


def satisfiable(
    form: dict[str, Any], definitions: dict[str, Form]
) -> tuple[dict[str, Any], dict[str, Form]]:
    """The schema and its definitions with `false` for what needs itself. Raises GrammarError where
    that is the whole, or finding out takes too long."""
    if not definitions:
        return form, {}
    look = _Satisfaction(definitions)
    if not look.holds([form]):
        raise GrammarError("No finite document satisfies the schema: it needs itself.", "$")
    pruned = look.pruned(form)
    assert isinstance(pruned, dict)
    return pruned, {name: look.pruned(part) for name, part in definitions.items()}


class _Satisfaction:
    """The least set of definitions that finite documents can satisfy, and what follows from it."""

    def __init__(self, definitions: dict[str, Form]) -> None:
        self._definitions = definitions
        self._known: set[str] = set()
        self._steps = 0
        self._above: set[frozenset[int]] = set()
        found = True
        while found:
            found = False
            for name in definitions.keys() - self._known:
                if self.holds([definitions[name]]):
                    self._known.add(name)
                    found = True

    def holds(self, forms: list[Form]) -> bool:
        """Whether some document satisfies all of the schemas, by what is known so far."""
        needed: list[Form] = [form for form in forms if form is not True]
        if len(needed) == 1 and isinstance(needed[0], dict) and needed[0].keys() == {"$ref"}:
            return referred(needed[0]) in self._known
        key = frozenset(map(id, needed))
        if key in self._above:
            return False
        self._steps += 1
        if self._steps > MAX_STEPS or len(self._above) > _MAX_DEPTH:
            raise GrammarError("It takes too long to see whether a document can end.", "$")
        self._above.add(key)
        try:
            return self._holds(needed)
        finally:
            self._above.discard(key)

    def _holds(self, forms: list[Form]) -> bool:
        parts = flattened(forms, self._known_form, narrowed_count=True)
        if parts is None:
            return False
        for place, part in enumerate(parts):
            if "anyOf" in part:
                rest: list[Form] = [*parts[:place], *parts[place + 1 :]]
                plain = {key: part[key] for key in part if key != "anyOf"}
                return any(self.holds([*rest, plain, branch]) for branch in part["anyOf"])
        types = set(TYPES)
        for part in parts:
            if "type" in part:
                types &= _types(part["type"])
        if types - {"array", "object"} or any("enum" in part for part in parts):
            return True
        return ("array" in types and self._array_holds(parts)) or (
            "object" in types and self._object_holds(parts)
        )

    def _array_holds(self, parts: list[dict[str, Any]]) -> bool:
        least = max((part.get("minItems", 0) for part in parts), default=0)
        listed = max((len(part.get("prefixItems", ())) for part in parts), default=0)
        return all(
            self.holds([_item(part, place) for part in parts])
            for place in range(min(least, listed + 1))
        )

    def _object_holds(self, parts: list[dict[str, Any]]) -> bool:
        required = {name for part in parts for name in part.get("required", ())}
        return all(
            self.holds([_property(part, name) for part in parts]) for name in sorted(required)
        )

    def _known_form(self, name: str) -> Form:
        """The definition, if some document is known to satisfy it."""
        return self._definitions[name] if name in self._known else False

    def pruned(self, form: Form) -> Form:
        if isinstance(form, bool):
            return form
        if form.keys() == {"$ref"}:
            return form if referred(form) in self._known else False
        out = dict(form)
        for key in ("properties", "patternProperties"):
            if key in form:
                out[key] = {name: self._kept(part) for name, part in form[key].items()}
        for key in ("items", "additionalProperties"):
            if key in form:
                out[key] = self._kept(form[key])
        for key in ("prefixItems", "anyOf"):
            if key in form:
                out[key] = [self._kept(part) for part in form[key]]
        if "allOf" in form:
            out["allOf"] = [self.pruned(part) for part in form["allOf"]]
        return out

    def _kept(self, form: Form) -> Form:
        return self.pruned(form) if self.holds([form]) else False


def _item(part: dict[str, Any], place: int) -> Form:
    listed = part.get("prefixItems", ())
    found: Form = listed[place] if place < len(listed) else part.get("items", True)
    return found


def _property(part: dict[str, Any], name: str) -> Form:
    if name in part.get("properties", ()):
        found: Form = part["properties"][name]
    elif "patternProperties" in part:
        found = True
    else:
        found = part.get("additionalProperties", True)
    return found


def _types(types: str | list[str]) -> set[str]:
    named = {types} if isinstance(types, str) else set(types)
    return named | {"integer"} if "number" in named else named
