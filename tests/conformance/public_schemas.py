"""JSON schemas that others published, as installed packages ship them. None is kept here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.metadata import files
from typing import Any

from headrace.grammar.schemas import MAX_BYTES

PACKAGES = ("ocpp", "check-jsonschema", "nbformat", "cmake", "jsonschema-specifications")

# Not regular, or of the text around: look-around, back-references, word boundaries.
_NO_PATTERN = re.compile(r"\(\?[=!<](?![A-Za-z_])|\(\?[=!]|\\[1-9bBk]|\(\?[a-z]")
_IN_PLACE = frozenset({"allOf", "anyOf", "oneOf", "$ref", "if", "not", "dependentSchemas"})


def public_schemas() -> Iterator[tuple[str, dict[str, Any]]]:
    """Schemas that declare their draft, by package and path."""
    for package in PACKAGES:
        for file in files(package) or ():
            if file.suffix != ".json":
                continue
            try:
                schema = json.loads(file.read_text("utf-8"))
            except ValueError:
                continue
            if isinstance(schema, dict) and isinstance(schema.get("$schema"), str):
                yield f"{package}: {file}", schema


def unenforceable(schema: object, root: object = None) -> str | None:
    """A keyword that no mask can hold an answer to, if there is one: the whole list.

    `uniqueItems` of items that are no short enum; patterns that are not regular; references to
    other documents; `unevaluated...` beside what else looks at the same value; the size.
    """
    if root is None:
        if len(json.dumps(schema, ensure_ascii=False).encode()) > MAX_BYTES:
            return "size"
        root = schema
    if isinstance(schema, list):
        return next((found for part in schema if (found := unenforceable(part, root))), None)
    if not isinstance(schema, dict):
        return None
    for key, value in schema.items():
        if key == "uniqueItems" and value is True and not _few(schema):
            return key
        if key == "pattern" and isinstance(value, str) and _NO_PATTERN.search(value):
            return key
        if key == "patternProperties" and any(map(_NO_PATTERN.search, value)):
            return key
        if key in ("$ref", "$dynamicRef") and isinstance(value, str) and not _inside(value, root):
            return key
        if key.startswith("unevaluated") and value is not True and _IN_PLACE & schema.keys():
            return key
        if key not in ("enum", "const", "default", "examples") and (
            found := unenforceable(value, root)
        ):
            return found
    return None


def _few(schema: dict[str, Any]) -> bool:
    items = schema.get("items")
    one = schema.get("maxItems", 2) <= 1
    return one or (isinstance(items, dict) and len(items.get("enum", range(9))) <= 6)


def _inside(reference: str, root: object) -> bool:
    base = root.get("$id", root.get("id", "")) if isinstance(root, dict) else ""
    address = reference.partition("#")[0]
    return (
        not address
        or address == str(base).removesuffix("#")
        or f'id": "{address}"' in json.dumps(root)
    )
