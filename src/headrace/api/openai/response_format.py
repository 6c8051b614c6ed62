"""What form an answer is to have: `response_format`, and vLLM's names for the same and more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol

import msgspec
from msgspec import Meta

from headrace.api.body import BodyError

FormatName = Annotated[str, Meta(pattern="^[a-zA-Z0-9_-]{1,64}\\Z")]
Schema = dict[str, Any] | bool
GrammarText = Annotated[str, Meta(min_length=1)]
Choices = Annotated[list[str], Meta(min_length=1)]

Kind = Literal["object", "schema", "regex", "choice", "grammar"]


@dataclass(frozen=True, slots=True)
class Form:
    """The form that an answer must have. value: a schema, a pattern, texts to choose from or a
    grammar, by its kind. param: where it stands in the request, for errors."""

    kind: Kind
    value: Any
    param: str


class TextFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="text"):
    pass


class JsonObjectFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="json_object"):
    """Any object. schema: llama.cpp's, what the object has to satisfy."""

    schema: Schema | None = None


class NamedSchema(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """name and description are for the caller's own use, and llama.cpp's callers give no name.
    strict: the schema is followed either way. Without a schema, any object."""

    name: FormatName | None = None
    description: str | None = None
    schema: Schema | None = None
    strict: bool | None = None


class JsonSchemaFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="json_schema"):
    json_schema: NamedSchema


ResponseFormat = TextFormat | JsonObjectFormat | JsonSchemaFormat


class StructuredOutputs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """vLLM's; one of them. json: a schema, also as JSON text. grammar: Lark or GBNF."""

    json: Schema | str | None = None
    regex: str | None = None
    choice: Choices | None = None
    grammar: GrammarText | None = None
    json_object: bool | None = None


_GUIDED: Mapping[str, Kind] = {
    "guided_json": "schema",
    "guided_regex": "regex",
    "guided_choice": "choice",
    "guided_grammar": "grammar",
}
_STRUCTURED: Mapping[str, Kind] = {
    "json": "schema",
    "regex": "regex",
    "choice": "choice",
    "grammar": "grammar",
}


class FormParameters(Protocol):
    """Parameters of both endpoints that give an answer its form, under vLLM's names."""

    @property
    def guided_json(self) -> Schema | str | None: ...
    @property
    def guided_regex(self) -> str | None: ...
    @property
    def guided_choice(self) -> list[str] | None: ...
    @property
    def guided_grammar(self) -> str | None: ...
    @property
    def structured_outputs(self) -> StructuredOutputs | None: ...


def asked_form(
    request: FormParameters, response_format: ResponseFormat | None = None
) -> Form | None:
    """The form that a request asks for; None for free text.

    Raises BodyError for more than one, and for a schema given as text that is no JSON.
    """
    found = [
        Form(kind, getattr(request, name), name)
        for name, kind in _GUIDED.items()
        if getattr(request, name) is not None
    ]
    if (structured := request.structured_outputs) is not None:
        found += _structured(structured)
    if (form := _formatted(response_format)) is not None:
        found.insert(0, form)
    if len(found) > 1:
        raise BodyError(
            f"Invalid '{found[1].param}': the answer's form is already given by "
            f"'{found[0].param}'.",
            found[1].param,
        )
    return _read(found[0]) if found else None


def _structured(structured: StructuredOutputs) -> list[Form]:
    found = [
        Form(kind, getattr(structured, name), f"structured_outputs.{name}")
        for name, kind in _STRUCTURED.items()
        if getattr(structured, name) is not None
    ]
    if structured.json_object:
        found.append(Form("object", None, "structured_outputs.json_object"))
    if not found:
        raise BodyError(
            "Invalid 'structured_outputs': it needs one of json, regex, choice, grammar and "
            "json_object.",
            "structured_outputs",
        )
    return found


def _formatted(response_format: ResponseFormat | None) -> Form | None:
    if isinstance(response_format, JsonObjectFormat):
        if response_format.schema is None:
            return Form("object", None, "response_format")
        return Form("schema", response_format.schema, "response_format.schema")
    if isinstance(response_format, JsonSchemaFormat):
        schema = response_format.json_schema.schema
        if schema is None:
            return Form("object", None, "response_format.json_schema")
        return Form("schema", schema, "response_format.json_schema.schema")
    return None


def _read(form: Form) -> Form:
    """With a schema that was given as text read."""
    if form.kind != "schema" or not isinstance(form.value, str):
        return form
    try:
        schema = msgspec.json.decode(form.value, type=Schema)
    except (msgspec.DecodeError, RecursionError):
        raise BodyError(
            f"Invalid '{form.param}': it is neither a JSON schema nor the text of one.", form.param
        ) from None
    return Form("schema", schema, form.param)
