"""The parts that schemas are written with: a function or a name for each thing an API says."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

DATE: Schema = {"type": "string", "format": "date"}
MOMENT: Schema = {"type": "string", "format": "date-time"}
CLOCK: Schema = {"type": "string", "format": "time"}
SPAN: Schema = {"type": "string", "format": "duration"}
UUID: Schema = {"type": "string", "format": "uuid"}
EMAIL: Schema = {"type": "string", "format": "email"}
LINK: Schema = {"type": "string", "format": "uri"}
HOST: Schema = {"type": "string", "format": "hostname"}
IPV4: Schema = {"type": "string", "format": "ipv4"}
IPV6: Schema = {"type": "string", "format": "ipv6"}
FLAG: Schema = {"type": "boolean"}
NOTHING: Schema = {"type": "null"}


def record(fields: dict[str, Schema], **more: Any) -> Schema:
    """A closed object. A field whose name ends in `?` may be left out."""
    return {
        "type": "object",
        "properties": {name.rstrip("?"): schema for name, schema in fields.items()},
        "required": [name for name in fields if not name.endswith("?")],
        "additionalProperties": False,
        **more,
    }


def many(items: Schema, least: int = 0, most: int | None = None) -> Schema:
    schema: Schema = {"type": "array", "items": items}
    if least:
        schema["minItems"] = least
    if most is not None:
        schema["maxItems"] = most
    return schema


def tuple_of(*items: Schema) -> Schema:
    """An array of exactly these, in this order."""
    size = len(items)
    return {
        "type": "array",
        "prefixItems": list(items),
        "items": False,
        "minItems": size,
        "maxItems": size,
    }


def text(most: int | None = None, least: int = 0) -> Schema:
    schema: Schema = {"type": "string"}
    if least:
        schema["minLength"] = least
    if most is not None:
        schema["maxLength"] = most
    return schema


def pattern(regex: str) -> Schema:
    """A text that is all of it like `regex`."""
    return {"type": "string", "pattern": f"^{regex}$"}


def integer(least: int | None = None, most: int | None = None) -> Schema:
    return _ranged("integer", least, most)


def number(least: float | None = None, most: float | None = None) -> Schema:
    return _ranged("number", least, most)


def between(least: float, most: float) -> Schema:
    """A number within, bounds excluded."""
    return {"type": "number", "exclusiveMinimum": least, "exclusiveMaximum": most}


def multiple(of: float, least: int, most: int) -> Schema:
    return {"type": "integer", "multipleOf": of, "minimum": least, "maximum": most}


def _ranged(kind: str, least: float | None, most: float | None) -> Schema:
    schema: Schema = {"type": kind}
    if least is not None:
        schema["minimum"] = least
    if most is not None:
        schema["maximum"] = most
    return schema


def choice(*values: str | int | float | bool | None) -> Schema:
    return {"enum": list(values)}


def only(value: str | int | bool) -> Schema:
    return {"const": value}


def any_of(*schemas: Schema) -> Schema:
    return {"anyOf": list(schemas)}


def one_of(*schemas: Schema) -> Schema:
    return {"oneOf": list(schemas)}


def maybe(schema: Schema) -> Schema:
    """Or null."""
    kind = schema.get("type")
    if isinstance(kind, str) and "enum" not in schema:
        return {**schema, "type": [kind, "null"]}
    return any_of(schema, NOTHING)


def table(values: Schema, keys: str | None = None) -> Schema:
    """An object used as a map, with names like `keys` if that is given."""
    if keys is None:
        return {"type": "object", "additionalProperties": values}
    return {
        "type": "object",
        "patternProperties": {f"^{keys}$": values},
        "additionalProperties": False,
    }


def ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


THIS: Schema = {"$ref": "#"}
