"""Drafts of JSON Schema: which words each has, and what they are in today's words.

A schema object is read once: words that its draft doesn't know are annotations, and old words
become those of draft 2020-12. All else sees today's words only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.grammar.errors import GrammarError
from headrace.grammar.schemas.form import listed, step

UNDECLARED = 0
"""No `$schema`: draft 2020-12, with the older words that it has no other meaning for, and
`nullable` of OpenAPI 3.0."""

_DRAFTS = {
    "json-schema.org/draft-04/schema": 4,
    "json-schema.org/draft-06/schema": 6,
    "json-schema.org/draft-07/schema": 7,
    "json-schema.org/draft/2019-09/schema": 2019,
    "json-schema.org/draft/2020-12/schema": 2020,
}
_SINCE = {
    "const": 6,
    "contains": 6,
    "propertyNames": 6,
    "if": 7,
    "then": 7,
    "else": 7,
    "contentEncoding": 7,
    "contentMediaType": 7,
    "dependentRequired": 2019,
    "dependentSchemas": 2019,
    "maxContains": 2019,
    "minContains": 2019,
    "unevaluatedItems": 2019,
    "unevaluatedProperties": 2019,
    "prefixItems": 2020,
    "$dynamicRef": 2020,
}
_ONLY = {"$recursiveRef": (2019,), "nullable": (UNDECLARED,)}
_ANY = frozenset(
    {
        "$ref",
        "additionalItems",
        "additionalProperties",
        "allOf",
        "anyOf",
        "dependencies",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "not",
        "oneOf",
        "pattern",
        "patternProperties",
        "properties",
        "required",
        "type",
        "uniqueItems",
    }
)


def draft_of(declared: object, path: str, outer: int | None = None) -> int:
    """The draft that `$schema` names: 4, 6, 7, 2019, 2020 or UNDECLARED.

    outer: of the schema around it, which has to be the same. Raises GrammarError.
    """
    if declared is None:
        return UNDECLARED if outer is None else outer
    draft = None
    if isinstance(declared, str):
        address = declared.removeprefix("http://").removeprefix("https://")
        draft = _DRAFTS.get(address.removesuffix("#"))
    if draft is None:
        raise GrammarError("Drafts 4, 6, 7, 2019-09 and 2020-12 are supported.", path)
    if outer is not None and draft != (outer or 2020):
        raise GrammarError("One schema is of one draft.", path)
    return draft


def id_word(draft: int) -> str:
    """The word that names a schema in the draft."""
    return "id" if draft == 4 else "$id"


@dataclass(frozen=True, slots=True)
class Words:
    """A schema object's keywords in today's words, in its order. written: where it wrote a word
    otherwise, the word it wrote."""

    words: dict[str, Any]
    written: dict[str, str]
    path: str

    def at(self, key: str) -> str:
        """The JSON path of a keyword."""
        return self.path + step(self.written.get(key, key))


def read(schema: dict[str, Any], draft: int, path: str) -> Words:
    """Raises GrammarError where words contradict each other."""
    if draft in (4, 6, 7) and "$ref" in schema:  # what stands beside it has no meaning
        return Words({"$ref": schema["$ref"]}, {}, path)
    words = {key: value for key, value in schema.items() if _known(key, draft)}
    reading = Words(words, {}, path)
    if draft in (4, UNDECLARED):
        _exclusive_bounds(reading, draft)
    _items(reading, draft)
    _dependencies(reading)
    _nullable(reading)
    return reading


def _known(key: str, draft: int) -> bool:
    if key in _ONLY:
        return draft in _ONLY[key]
    return key in _ANY or (key in _SINCE and (draft == UNDECLARED or draft >= _SINCE[key]))


def _exclusive_bounds(reading: Words, draft: int) -> None:
    """Draft 4 says by a boolean whether the bound itself is excluded."""
    words = reading.words
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        said = words.get(exclusive)
        if isinstance(said, bool):
            del words[exclusive]
            if said and bound in words:
                _rename(reading, bound, exclusive)
        elif draft == 4 and said is not None:
            raise GrammarError("In draft 4 it is true or false.", reading.at(exclusive))


def _items(reading: Words, draft: int) -> None:
    """A list of items became prefixItems, and what came behind it became items."""
    words = reading.words
    rest = words.pop("additionalItems", None)
    if not isinstance(words.get("items"), list):
        return
    if draft == 2020 or "prefixItems" in words:
        raise GrammarError("A list of items is prefixItems.", reading.at("items"))
    _rename(reading, "items", "prefixItems")
    if rest is not None:
        words["items"] = rest
        reading.written["items"] = "additionalItems"


def _dependencies(reading: Words) -> None:
    words = reading.words
    given = words.pop("dependencies", None)
    if given is None:
        return
    if not isinstance(given, dict):
        raise GrammarError("dependencies is an object.", reading.path + step("dependencies"))
    for word, parts in (
        ("dependentRequired", {k: v for k, v in given.items() if isinstance(v, list)}),
        ("dependentSchemas", {k: v for k, v in given.items() if not isinstance(v, list)}),
    ):
        if parts and word in words:
            where = reading.path + step("dependencies")
            raise GrammarError(f"Not supported beside {word}.", where)
        if parts:
            words[word] = parts
            reading.written[word] = "dependencies"


def _nullable(reading: Words) -> None:
    """By OpenAPI 3.0 it adds null to the types that stand beside it, and means nothing alone."""
    words = reading.words
    nullable = words.pop("nullable", False)
    if not isinstance(nullable, bool):
        raise GrammarError("Either true or false.", reading.path + step("nullable"))
    if nullable and "type" in words and (types := listed(words["type"])):
        words["type"] = list(dict.fromkeys([*types, "null"]))


def _rename(reading: Words, old: str, new: str) -> None:
    """Where it stands, since the order of words can be that of properties."""
    renamed = {new if key == old else key: value for key, value in reading.words.items()}
    reading.words.clear()
    reading.words.update(renamed)
    reading.written[new] = old
