"""Whether an answer is what its schema asks for, said by others than those who wrote it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pydantic_core
from jsonschema import Draft202012Validator
from jsonschema.protocols import Validator

from schemas.parts import Schema

STRING = re.compile(r'"(?:[^"\\]|\\.)*(?:"|$)', re.DOTALL)
NUMBER_TO_COME = re.compile(r"[-+.\deE]+$")
MOST_WHITESPACE = 16
"""Characters in a row; a line break and an indentation of any of our schemas are fewer."""

LOWER_BOUNDS = {"required", "minItems", "minProperties", "minLength"}


def validator(schema: Schema) -> Validator:
    """Formats included."""
    return Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)


def fault(schema: Schema, text: str, finish_reason: str) -> str | None:
    """What is wrong with an answer; None if nothing is.

    One that finished must be valid; one cut at its limit must be the beginning of a valid one, as
    far as can be told without a grammar: what stands there in full is valid.
    """
    blanks = re.search(rf"\s{{{MOST_WHITESPACE},}}", STRING.sub('""', text))
    if blanks:
        return f"{len(blanks[0])} characters of whitespace"
    if finish_reason == "length":
        return _fault_of_beginning(schema, text)
    if finish_reason != "stop":
        return f"finish reason {finish_reason}"
    try:
        document = json.loads(text, parse_constant=_no_json)
    except ValueError as error:
        return f"no JSON: {error}"
    return _first_error(schema, document)


def _no_json(name: str) -> Any:
    raise ValueError(name)


def _fault_of_beginning(schema: Schema, text: str) -> str | None:
    try:
        # Of a number at the end nobody knows whether there is more to come.
        document = pydantic_core.from_json(NUMBER_TO_COME.sub("", text), allow_partial=True)
    except ValueError as error:
        # Before the first value, or within one that isn't inside of anything.
        return None if "EOF" in str(error) else f"no beginning of JSON: {error}"
    return _first_error(unfinished(schema), document)


def unfinished(schema: Any) -> Any:
    """The schema without what only a complete document can satisfy. That more than one branch
    of a `oneOf` fits what is there is no fault of it."""
    if isinstance(schema, list):
        return [unfinished(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    names = schema.get("properties", {})
    kept = {k: unfinished(v) for k, v in schema.items() if k not in LOWER_BOUNDS}
    if names:
        kept["properties"] = {name: unfinished(part) for name, part in names.items()}
    if "oneOf" in kept:
        kept["anyOf"] = kept.pop("oneOf")
    return kept


def _first_error(schema: Schema, document: Any) -> str | None:
    error = next(validator(schema).iter_errors(document), None)
    return f"{error.json_path}: {error.message[:200]}" if error else None
