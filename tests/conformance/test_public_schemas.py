"""Schemas that others published: nearly all are taken, and no answer violates one."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import jsonschema
import pytest

from headrace.grammar import Grammar, GrammarError, json_schema
from tests.grammar.following import matcher, walk

from .public_schemas import public_schemas, unenforceable

Taken = dict[str, tuple[dict[str, Any], Grammar]]


@pytest.fixture(scope="module")
def refused() -> dict[str, str]:
    """Of schemas without an unenforceable keyword, why."""
    return {}


@pytest.fixture(scope="module")
def taken(refused: dict[str, str]) -> Taken:
    found: Taken = {}
    for name, schema in public_schemas():
        try:
            grammar = json_schema(schema)
            matcher(grammar)
        except GrammarError as error:
            if unenforceable(schema) is None:
                refused[name] = str(error)
        else:
            found[name] = schema, grammar
    return found


def test_of_enforceable_schemas_at_least_95_of_100_are_taken(
    taken: Taken, refused: dict[str, str]
) -> None:
    enforceable = [name for name, (schema, _) in taken.items() if unenforceable(schema) is None]
    asked = len(enforceable) + len(refused)
    assert asked >= 150
    assert len(enforceable) >= 0.95 * asked, refused
    declared = Counter(schema["$schema"] for schema, _ in taken.values())
    for draft in ("draft-04", "draft-06", "draft-07"):
        assert any(draft in word for word in declared)


def test_no_answer_violates_its_schema(taken: Taken) -> None:
    judged = 0
    for name, (schema, grammar) in taken.items():
        validator = jsonschema.validators.validator_for(schema)(schema)
        for seed in range(2):
            written = walk(grammar, seed, longest=800)
            if written is not None:
                judged += 1
                errors = list(validator.iter_errors(json.loads(written)))
                assert errors == [], (name, seed, written)
    assert judged >= 300
