"""OpenAPI documents, made of the structs that bodies are read into and answers are written from.

OpenAPI 3.2 (https://spec.openapis.org/oas/v3.2.0), whose `itemSchema` can tell what the events of
a stream are. Schemas are msgspec's, made as strict as the readers and writers are.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_type_hints

import msgspec
from msgspec import UNSET

Schema = dict[str, Any]

JSON, EVENTS = "application/json", "text/event-stream"
_REFERENCE = "#/components/schemas/{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    about: str
    schema: Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A JSON body. struct: as `FieldReader` reads it, or with `null_is_absent` False as msgspec
    does. extra: schemas of properties, or of more values of its own, that are accepted too."""

    struct: type[msgspec.Struct]
    null_is_absent: bool = True
    extra: Mapping[str, Schema] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """body: the type of its JSON. events: types of the data of a stream's events instead of it,
    where one is asked for. end: the text that is the last, if any is. texts: media types of a plain
    text. headers: names of those that it always has; sometimes: of those that it may have."""

    about: str
    body: Any = None
    events: Sequence[Any] = ()
    end: str = ""
    texts: Sequence[str] = ()
    headers: Sequence[str] = ()
    sometimes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A method of a path, whose parameters are texts. query: a struct of its parameters.
    request_headers: those it heeds. needs_key: it is answered for keys alone."""

    id: str
    method: str
    path: str
    about: str
    answers: Mapping[int, Answer]
    query: type[msgspec.Struct] | None = None
    request_headers: Mapping[str, Header] = field(default_factory=dict)
    body: Body | None = None
    needs_key: bool = True


def make_document(
    title: str,
    about: str,
    version: str,
    operations: Sequence[Operation],
    headers: Mapping[str, Header],
) -> Schema:
    """headers: all that answers name. Raises ValueError if two different structs have one name."""
    writer = _Writer(operations, headers)
    paths: dict[str, Schema] = {}
    for operation in operations:
        path = paths.setdefault(operation.path, {})
        path[operation.method.lower()] = writer.operation(operation)
    return {
        "openapi": "3.2.0",
        "info": {"title": title, "description": about, "version": version},
        "paths": paths,
        "components": {
            "schemas": writer.schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


class _Writer:
    """schemas: of all structs that the operations speak of."""

    def __init__(self, operations: Sequence[Operation], headers: Mapping[str, Header]) -> None:
        bodies = [operation.body for operation in operations if operation.body]
        answers = [answer for operation in operations for answer in operation.answers.values()]
        written = [kind for a in answers for kind in (a.body, *a.events) if kind is not None]
        self._headers = headers
        self._types: list[tuple[Any, Schema]] = []
        read = self._refer([body.struct for body in bodies])
        for body in bodies:
            _as_read(read[body.struct.__name__], body)
        self.schemas = read
        for name, schema in self._refer(written).items():
            _as_written(schema)
            if self.schemas.setdefault(name, schema) != schema:
                raise ValueError(f"two structs are called {name}")
        for schema in self.schemas.values():
            _translate(schema)

    def operation(self, operation: Operation) -> Schema:
        found: Schema = {
            "operationId": operation.id,
            "summary": operation.about,
            "security": [{"key": []}] if operation.needs_key else [],
            "responses": {
                str(status): self._answer(answer) for status, answer in operation.answers.items()
            },
        }
        parameters = [*_in_path(operation.path), *_in_query(operation.query)]
        parameters += _in_head(operation.request_headers)
        if parameters:
            found["parameters"] = parameters
        if operation.body is not None:
            content = {JSON: {"schema": self._reference(operation.body.struct)}}
            found["requestBody"] = {"required": True, "content": content}
        return found

    def _answer(self, answer: Answer) -> Schema:
        content: dict[str, Schema] = {
            media: {"schema": {"type": "string"}} for media in answer.texts
        }
        if answer.body is not None:
            content[JSON] = {"schema": self._reference(answer.body)}
        if answer.events:
            data = [_json_text(self._reference(kind)) for kind in answer.events]
            end = [{"const": answer.end}] if answer.end else []
            content[EVENTS] = {"itemSchema": _event([*data, *end])}
        found: Schema = {"description": answer.about}
        if content:
            found["content"] = content
        found["headers"] = {
            name: self._header(name, name in answer.headers)
            for name in (*answer.headers, *answer.sometimes)
        }
        return found

    def _header(self, name: str, required: bool) -> Schema:
        header = self._headers[name]
        return {"description": header.about, "required": required, "schema": header.schema}

    def _refer(self, types: Iterable[Any]) -> dict[str, Schema]:
        """Remember how to refer to each; the schemas of all the structs among and below them."""
        kinds = list(types)
        references, schemas = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
        self._types += zip(kinds, references, strict=True)
        return schemas

    def _reference(self, kind: Any) -> Schema:
        return next(schema for known, schema in self._types if known == kind)


def _as_read(schema: Schema, body: Body) -> None:
    properties: dict[str, Schema] = schema["properties"]
    schema["additionalProperties"] = False
    if body.null_is_absent:
        for name, value in properties.items():
            if name not in schema["required"] and not _allows_null(value):
                default = {"default": value.pop("default")} if "default" in value else {}
                properties[name] = {"anyOf": [value, {"type": "null"}], **default}
    for name, value in body.extra.items():
        known = properties.get(name)
        properties[name] = value if known is None else {"anyOf": [known, value]}


def _as_written(schema: Schema) -> None:
    """What has a default is always there; only what may be UNSET is not."""
    properties: dict[str, Schema] = schema.get("properties", {})
    always = [name for name, value in properties.items() if "default" in value]
    for name in always:
        del properties[name]["default"]
    if properties:
        needed = {*schema["required"], *always}
        schema["required"] = [name for name in properties if name in needed]


def _allows_null(schema: Schema) -> bool:
    return schema.get("type") == "null" or any(map(_allows_null, schema.get("anyOf", ())))


def _translate(schema: Any) -> None:
    """Python's patterns as ECMA-262 writes them, docstrings as sentences."""
    if isinstance(schema, list):
        for item in schema:
            _translate(item)
    elif isinstance(schema, dict):
        if isinstance(pattern := schema.get("pattern"), str):
            schema["pattern"] = pattern.replace("\\Z", "$")
        if isinstance(about := schema.get("description"), str):
            schema["description"] = inspect.cleandoc(about)
        for value in schema.values():
            _translate(value)


def _in_path(path: str) -> Iterator[Schema]:
    for name in re.findall(r"{(\w+)}", path):
        schema = {"type": "string", "minLength": 1}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _in_query(struct: type[msgspec.Struct] | None) -> Iterator[Schema]:
    if struct is None:
        return
    kinds = get_type_hints(struct, include_extras=True)
    for known in msgspec.structs.fields(struct):
        schema = msgspec.json.schema(kinds[known.name])
        _translate(schema)
        if not known.required and known.default is not UNSET:
            schema["default"] = known.default
        yield {"name": known.name, "in": "query", "required": known.required, "schema": schema}


def _in_head(headers: Mapping[str, Header]) -> Iterator[Schema]:
    for name, header in headers.items():
        told = {"description": header.about, "required": False, "schema": header.schema}
        yield {"name": name, "in": "header", **told}


def _json_text(schema: Schema) -> Schema:
    return {"type": "string", "contentMediaType": JSON, "contentSchema": schema}


def _event(data: Sequence[Schema]) -> Schema:
    """A server-sent event, as OpenAPI 3.2 sees it (section 4.14.4)."""
    return {"type": "object", "properties": {"data": {"anyOf": data}}, "required": ["data"]}
