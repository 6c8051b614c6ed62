"""Lengths of texts that are too large for the grammar to count (`grammar.text_bound`)."""

from __future__ import annotations

from typing import Any, NamedTuple

from headrace.grammar.schemas.form import Form, listed

WORD = "x-maxLength"
"""Stands for `maxLength` in a form while it is made."""

_GREATEST = 1 << 40
"""No answer comes near it, and it can be sent to a worker as a number."""

_MARK = {"pattern": r"^(?s:[^\x08]*)$"}


class Checked(NamedTuple):
    """What `check_schema` returns.

    form: the schema in the words that are enforced. bound: the least `maxLength` that the grammar
    does not count, None if there is none. Texts with such a length can't have U+0008 in them, so
    that they are told apart from texts without one.
    """

    form: Form
    bound: int | None


def marked(form: Form) -> Checked:
    """A whole form, with U+0008 excluded from texts whose length is not counted."""
    bounds: list[int] = []
    made = _marked(form, bounds)
    return Checked(made, min(bounds, default=None))


def _marked(form: Form, bounds: list[int]) -> Form:
    if isinstance(form, bool):
        return form
    out: dict[str, Any] = {}
    for key, value in form.items():
        if key in ("properties", "patternProperties", "$defs"):
            out[key] = {name: _marked(part, bounds) for name, part in value.items()}
        elif key in ("items", "additionalProperties"):
            out[key] = _marked(value, bounds)
        elif key in ("prefixItems", "anyOf", "allOf"):
            out[key] = [_marked(part, bounds) for part in value]
        elif key != WORD:
            out[key] = value
    if WORD in form and ("type" not in form or "string" in listed(form["type"])):
        bounds.append(min(form[WORD], _GREATEST))
        if "pattern" in out:
            out["allOf"] = [*out.get("allOf", ()), _MARK]
        else:
            out |= _MARK
    return out
