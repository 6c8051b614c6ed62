"""JSON schemas: what is enforced exactly, and what is refused."""

from __future__ import annotations

from headrace.grammar.errors import GrammarError


def check_schema(schema: object) -> object:
    """The schema in the form that is compiled. Raises GrammarError."""
    if not isinstance(schema, dict | bool):
        raise GrammarError("A schema is an object or a boolean.", "$")
    return schema
