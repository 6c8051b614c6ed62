"""Properties of objects."""

from __future__ import annotations

from typing import Any

from headrace.grammar.errors import GrammarError
from headrace.grammar.pattern import listed_texts, literal_pattern, search_pattern
from headrace.grammar.schemas.arrays import vacuous
from headrace.grammar.schemas.form import NO_TEXT, Form, all_of, any_of, listed, not_of_type, step
from headrace.grammar.schemas.node import Node, Rewriter
from headrace.grammar.schemas.strings import MAX_LENGTH
from headrace.grammar.schemas.uncounted import WORD
from headrace.grammar.schemas.values import count, spelled

MAX_PROPERTIES = 500
MAX_MOST_PROPERTIES = 2_000
MAX_DEPENDENCIES = 6
MAX_ALTERNATIVES = 30

_NO_NAME = f"^(?:{NO_TEXT})$"


def _properties(node: Node, schemas: object) -> None:
    if len(node.mapping("properties", schemas)) > MAX_PROPERTIES:
        raise node.fault("properties", f"An object has at most {MAX_PROPERTIES} of them.")
    _add_properties(node, node.named("properties", schemas), first=True)


def _add_properties(node: Node, forms: dict[str, Form], *, first: bool = False) -> None:
    """Names and what their values satisfy, beside what is known of them. first: these names come
    before the others."""
    known: dict[str, Form] = node.out.get("properties", {})
    # A name that can't be written never comes, whatever its value would be.
    new = {name: form if spelled(name) else False for name, form in forms.items()}
    order = [*new, *known] if first else [*known, *new]
    node.out["properties"] = {
        name: all_of([new.get(name, True), known.get(name, True)]) for name in order
    }


def _pattern_properties(node: Node, schemas: object) -> None:
    patterns: dict[str, Form] = {}
    for pattern, form in node.named("patternProperties", schemas).items():
        try:
            written = search_pattern(pattern)
        except GrammarError as error:
            where = node.at("patternProperties") + step(pattern)
            raise GrammarError(error.reason, where) from None
        patterns[written] = all_of([patterns[written], form]) if written in patterns else form
    for written in list(patterns):
        # A list of names, all of which have come, would let one more begin, and nothing follow.
        if (names := listed_texts(written)) is not None:
            _add_properties(node, dict.fromkeys(names, patterns.pop(written)))
    # Patterns must not overlap; those with one schema are one pattern.
    joined: list[tuple[list[str], Form]] = []
    for written, form in patterns.items():
        for names, same in joined:
            if same == form and type(same) is type(form):
                names.append(written)
                break
        else:
            joined.append(([written], form))
    if joined:
        node.out["patternProperties"] = {f"^(?:{'|'.join(names)})$": form for names, form in joined}


def _additional_properties(node: Node, schema: object) -> None:
    node.out["additionalProperties"] = node.nested("additionalProperties", schema)


def _required(node: Node, names: object) -> None:
    required = node.strings("required", names)
    if all(map(spelled, required)):
        node.out["required"] = required
    else:
        node.parts.append(not_of_type("object"))


def _least_properties(node: Node, value: object) -> None:
    least = count(value, node.at("minProperties"))
    required = node.words.get("required", [])
    known = len(set(required)) if isinstance(required, list) else 0
    if least > known + 1:
        raise node.fault("minProperties", "At most one more than are required is supported.")
    if least > known:
        node.out["minProperties"] = least


def _most_properties(node: Node, value: object) -> None:
    most = count(value, node.at("maxProperties"))
    named = node.words.get("properties", {})
    closed = node.words.get("additionalProperties") is False
    closed = closed and "patternProperties" not in node.words
    if closed and len(named) <= most:
        return
    required = node.words.get("required", [])
    if most == 1 and isinstance(named, dict) and not required and named:
        node.parts.append(_one_name(node, list(named), closed=closed))
        return
    node.out["maxProperties"] = min(most, MAX_MOST_PROPERTIES)


def _one_name(node: Node, names: list[str], *, closed: bool) -> Form:
    """Objects of at most one name."""
    if len(names) > MAX_ALTERNATIVES:
        raise node.fault(
            "maxProperties",
            f"Supported of up to {MAX_ALTERNATIVES} properties, or if all are required.",
        )
    none = dict.fromkeys(names, False)
    branches: list[Form] = [
        {
            "type": "object",
            "properties": {**none, name: True},
            "required": [name],
            "maxProperties": 1,
        }
        for name in names
        if spelled(name)
    ]
    return any_of([*branches, {"properties": none, "maxProperties": 0 if closed else 1}])


def _property_names(node: Node, schema: object) -> None:
    form = node.nested("propertyNames", schema)
    if isinstance(form, dict) and form.keys() == {"enum"}:
        # By name, not by pattern: where all have come, no further one may begin.
        names = dict.fromkeys((name for name in form["enum"] if isinstance(name, str)), True)
        node.parts.append({"properties": names, "additionalProperties": False})
        return
    pattern = _pattern_of_names(node, form)
    if pattern is not None:
        node.parts.append({"patternProperties": {pattern: True}, "additionalProperties": False})


def _pattern_of_names(node: Node, form: Form) -> str | None:
    if isinstance(form, dict) and "type" in form:
        strings = "string" in listed(form["type"])
        form = ({key: form[key] for key in form if key != "type"} or True) if strings else False
    if isinstance(form, dict) and WORD in form:  # a name that long never comes
        form = {key: form[key] for key in form if key != WORD}
        form = form or {"maxLength": MAX_LENGTH}
    if form is True:
        return None
    if form is False:
        return _NO_NAME
    if form.keys() == {"anyOf"}:
        patterns = [_pattern_of_names(node, branch) for branch in form["anyOf"]]
        return None if None in patterns else "|".join(map(str, patterns))
    if form.keys() == {"pattern"}:
        return str(form["pattern"])
    if form.keys() == {"enum"}:
        names = [name for name in form["enum"] if isinstance(name, str)]
        return f"^(?:{'|'.join(map(literal_pattern, names)) or NO_TEXT})$"
    if form.keys() <= {"minLength", "maxLength"}:
        return f"^(?s:.{{{form.get('minLength', 0)},{form.get('maxLength', '')}}})$"
    raise node.fault("propertyNames", "Supported by one pattern, by length, or by an enum.")


def _dependent_required(node: Node, names: object) -> None:
    for name, others in node.mapping("dependentRequired", names).items():
        _depends(node, name, {"required": node.strings("dependentRequired", others)})


def _dependent_schemas(node: Node, schemas: object) -> None:
    for name, form in node.named("dependentSchemas", schemas).items():
        _depends(node, name, form)


def _depends(node: Node, name: str, form: Form) -> None:
    if form is True or form == {"required": []}:
        return
    if len(node.parts) >= MAX_DEPENDENCIES:
        raise GrammarError(
            f"At most {MAX_DEPENDENCIES} dependencies in one object are supported.", node.path
        )
    absent: dict[str, Any] = {"properties": {name: False}}
    present = all_of([{"properties": {name: True}, "required": [name]}, form])
    node.parts.append(any_of([absent, present]))


def _unevaluated_properties(node: Node, schema: object) -> None:
    key = "unevaluatedProperties"
    if vacuous(node, key, schema) or "additionalProperties" in node.words:
        return
    node.out["additionalProperties"] = node.nested(key, schema)


REWRITERS: dict[str, Rewriter] = {
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "required": _required,
    "minProperties": _least_properties,
    "maxProperties": _most_properties,
    "propertyNames": _property_names,
    "dependentRequired": _dependent_required,
    "dependentSchemas": _dependent_schemas,
    "unevaluatedProperties": _unevaluated_properties,
}
