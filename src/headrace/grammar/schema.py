"""JSON schemas: what is enforced exactly, and what is refused.

A schema is rewritten into the few keywords that llguidance enforces to the letter, and everything
that cannot be is refused: a keyword nobody enforces would be a promise nobody keeps. What is
rewritten, and why:

- references become local names, so that pointers mean one thing;
- patterns and formats become anchored patterns of one dialect (`pattern`, `formats`);
- `oneOf` becomes `anyOf` where its branches are shown to exclude each other;
- `const` becomes `enum`; dependencies, names of properties and what is left unevaluated become the
  objects they allow; older drafts' words become today's;
- what no finite document can satisfy becomes `false`.

Numbers are doubles there, so bounds that are none are refused. A free name may come twice in an
object, so at least two free names cannot be asked for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import unquote

from headrace.grammar import formats
from headrace.grammar.errors import GrammarError
from headrace.grammar.exclusion import exclusive
from headrace.grammar.pattern import UNSPELLED, literal_pattern, search_pattern
from headrace.grammar.satisfaction import satisfiable

MAX_BYTES = 256 << 10
MAX_DEPTH = 32
MAX_SCHEMAS = 3_000
MAX_PROPERTIES = 500
MAX_VALUES = 5_000
MAX_LENGTH = 32_768
MAX_ITEMS = 2_000
MAX_DEPENDENCIES = 6

Form = bool | dict[str, Any]

TYPES = ("null", "boolean", "number", "integer", "string", "array", "object")
_ANNOTATIONS = frozenset(
    {
        "$anchor",
        "$comment",
        "$defs",
        "$id",
        "$schema",
        "$vocabulary",
        "default",
        "definitions",
        "deprecated",
        "description",
        "discriminator",
        "example",
        "examples",
        "externalDocs",
        "readOnly",
        "title",
        "writeOnly",
    }
)
_IN_PLACE = ("$ref", "allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas", "dependencies")
_DRAFTS = {
    "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-07/schema": 7,
    "https://json-schema.org/draft-06/schema": 6,
    "https://json-schema.org/draft-07/schema": 7,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "https://json-schema.org/draft/2020-12/schema": 2020,
}


def check_schema(schema: object) -> Form:
    """The schema in the words that are enforced to the letter (`llguidance`'s dialect).

    Draft 2020-12, or 2019-09, 7 and 6 where `$schema` says so. Raises GrammarError with the place
    and the reason for what is not supported, too large, or satisfied by no document.
    """
    try:
        text = json.dumps(schema, ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
    except RecursionError:
        raise GrammarError(f"A schema nests at most {MAX_DEPTH} deep.", "$") from None
    except UnicodeEncodeError:
        raise GrammarError("The schema has half a surrogate pair in it.", "$") from None
    except (TypeError, ValueError):
        raise GrammarError("A schema is JSON.", "$") from None
    if size > MAX_BYTES:
        raise GrammarError(f"A schema has at most {MAX_BYTES} bytes.", "$")
    return _Check(schema, combines=any(f'"{word}"' in text for word in _IN_PLACE)).form()


class _Check:
    """One schema on its way to its form."""

    def __init__(self, root: object, *, combines: bool) -> None:
        """combines: whether one value may have to satisfy several schemas in it."""
        self.combines = combines
        self._root = root
        self._count = 0
        self._values = 0
        self._definitions: dict[str, Form] = {}
        self._names: dict[str, str] = {}  # of definitions, by pointer
        self._pending: list[tuple[str, object, str]] = []  # their names, schemas and places
        self._choices: list[tuple[dict[str, Any], str]] = []
        self._draft = 2020
        self._base = ""
        self._identified = False  # some subschema has another base for its references
        if isinstance(root, dict):
            self._draft = _draft(root.get("$schema"), "$.$schema")
            base = root.get("$id", "")
            self._base = base.removesuffix("#") if isinstance(base, str) else ""

    def form(self) -> Form:
        form = self._schema(self._root, "$", 0)
        while self._pending:
            name, schema, place = self._pending.pop()
            self._definitions[name] = self._schema(schema, place, 1)
        if isinstance(form, bool):
            if not form:
                raise GrammarError("No document satisfies the schema.", "$")
            return form
        _refuse_circles(self._definitions)
        for chosen, path in self._choices:
            branches = chosen.pop("oneOf")
            if not exclusive(branches, self._definitions):
                raise GrammarError(
                    "oneOf is supported where its branches plainly exclude each other: by type, "
                    "by a constant, or by a property that each requires.",
                    path,
                )
            chosen["anyOf"] = branches
        form, definitions = satisfiable(form, self._definitions)
        return {**form, "$defs": definitions} if definitions else form

    def _schema(self, schema: object, path: str, depth: int) -> Form:
        self._count += 1
        if self._count > MAX_SCHEMAS:
            raise GrammarError(f"A schema has at most {MAX_SCHEMAS} schemas in it.", path)
        if depth > MAX_DEPTH:
            raise GrammarError(f"A schema nests at most {MAX_DEPTH} deep.", path)
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            raise GrammarError("A schema is an object or a boolean.", path)
        return _Rewrite(self, schema, path, depth).form()

    def reference(self, target: object, path: str) -> Form:
        """A local name for what a `$ref` points to, which is rewritten in its turn."""
        if not isinstance(target, str):
            raise GrammarError("A reference is a string.", path)
        if self._base and target.startswith(f"{self._base}#"):
            target = target[len(self._base) :]
        if target != "#" and not target.startswith("#/"):
            raise GrammarError(
                f"Only references into the schema itself are followed, '#' or '#/...', not "
                f"{target[:100]!r}.",
                path,
            )
        pointer = unquote(target[1:])
        if pointer not in self._names:
            name = self._names[pointer] = f"d{len(self._names)}"
            self._pending.append((name, *self._find(pointer, path)))
        return {"$ref": f"#/$defs/{self._names[pointer]}"}

    def _find(self, pointer: str, path: str) -> tuple[object, str]:
        node, place = self._root, "$"
        for part in pointer.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and key in node:
                node = node[key]
            elif isinstance(node, list) and key.isdecimal() and int(key) < len(node):
                node = node[int(key)]
            else:
                raise GrammarError(f"There is nothing at '#{pointer[:100]}'.", path)
            place += _step(key)
            if isinstance(node, dict) and isinstance(node.get("$id"), str):
                raise GrammarError("References past another $id are not followed.", path)
        return node, place

    def choice(self, form: dict[str, Any], path: str) -> None:
        """Remember to show that the branches of a oneOf exclude each other, once all is known."""
        self._choices.append((form, path))

    def value(self, value: object, path: str, depth: int = 0) -> None:
        """Whether a constant can be compared exactly."""
        self._values += 1
        if self._values > MAX_VALUES:
            raise GrammarError(f"A schema has at most {MAX_VALUES} constants in it.", path)
        if depth > MAX_DEPTH:
            raise GrammarError(f"A constant nests at most {MAX_DEPTH} deep.", path)
        if isinstance(value, dict):
            for key, part in value.items():
                self.value(part, path + _step(key), depth + 1)
        elif isinstance(value, list):
            for place, part in enumerate(value):
                self.value(part, f"{path}[{place}]", depth + 1)
        elif not isinstance(value, bool | str | None):
            _number(value, path)

    @property
    def draft(self) -> int:
        return self._draft

    def nested(self, schema: object, path: str, depth: int) -> Form:
        return self._schema(schema, path, depth + 1)


class _Rewrite:
    """One schema object's keywords, each rewritten by the method it is named after."""

    def __init__(self, check: _Check, schema: dict[str, Any], path: str, depth: int) -> None:
        self._check = check
        self._schema = schema
        self._path = path
        self._depth = depth
        self._out: dict[str, Any] = {}
        self._parts: list[Form] = []

    def form(self) -> Form:
        schema = self._schema
        if self._depth and "$schema" in schema:
            _draft(schema["$schema"], self._at("$schema"), self._check.draft)
        if self._depth and "$id" in schema and "$ref" in schema:
            raise self._fault("$id", "Another base for references is not supported.")
        for key in schema:
            if key not in _KEYWORDS and key not in _ANNOTATIONS and not key.startswith("x-"):
                raise self._fault(key, f"The keyword {key[:100]!r} is not supported.")
        if (
            "$ref" in schema
            and self._check.draft <= 7
            and (_KEYWORDS.keys() & schema.keys()) != {"$ref"}
        ):
            raise self._fault("$ref", "In this draft what stands beside $ref has no meaning.")
        parts_first = False
        for key in schema:
            rewrite = _KEYWORDS.get(key)
            if rewrite is not None:
                rewrite(self, schema[key])
                parts_first |= bool(self._parts) and not self._out
        parts = [part for part in self._parts if part is not True]
        if False in parts:
            return False
        if not parts:
            return self._out or True
        if not self._out and len(parts) == 1:
            return parts[0]
        if parts_first:
            return {"allOf": parts, **self._out}
        return {**self._out, "allOf": parts}

    # --- for every type

    def type(self, types: object) -> None:
        given = [types] if isinstance(types, str) else types
        if not isinstance(given, list) or not all(t in TYPES for t in given):
            raise self._fault("type", f"A type is one of {', '.join(TYPES)}, or a list of them.")
        if not given:
            raise self._fault("type", "There is no type left.")
        self._out["type"] = given[0] if len(given) == 1 else given

    def enum(self, values: object) -> None:
        if not isinstance(values, list):
            raise self._fault("enum", "An enum is a list.")
        if not values:
            raise self._fault("enum", "An enum without values is satisfied by nothing.")
        for place, value in enumerate(values):
            self._check.value(value, f"{self._at('enum')}[{place}]")
        self._parts.append(self._one_of_values("enum", values))

    def const(self, value: object) -> None:
        self._check.value(value, self._at("const"))
        self._parts.append(self._one_of_values("const", [value]))

    def _one_of_values(self, key: str, values: list[Any]) -> Form:
        spelled = [value for value in values if _spelled(value)]
        if not spelled:
            raise self._fault(key, "The value has a control character that is not written here.")
        return {"enum": spelled}

    def reference(self, target: object) -> None:
        self._parts.append(self._check.reference(target, self._at("$ref")))

    def all_of(self, schemas: object) -> None:
        self._parts += self._branches("allOf", schemas)

    def any_of(self, schemas: object) -> None:
        self._parts.append(_any(self._branches("anyOf", schemas)))

    def one_of(self, schemas: object) -> None:
        branches = self._branches("oneOf", schemas)
        possible = [branch for branch in branches if branch is not False]
        if len(possible) <= 1:
            self._parts.append(_any(possible))
        elif all(_only_requires(branch) for branch in possible):
            self._parts.append(_one_required([branch["required"] for branch in possible]))  # type: ignore[index]
        else:
            form: dict[str, Any] = {"oneOf": possible}
            self._check.choice(form, self._at("oneOf"))
            self._parts.append(form)

    def negation(self, schema: object) -> None:
        form = self._nested("not", schema)
        if isinstance(form, bool):
            self._parts.append(not form)
        elif form.keys() == {"type"} and not {"number", "integer"} & set(_listed(form["type"])):
            excluded = _listed(form["type"])
            kept = [t for t in TYPES if t not in excluded and t != "integer"]
            self._parts.append({"type": kept} if kept else False)
        elif _only_requires(form):
            self._parts.append(_any(_without(name) for name in form["required"]))
        else:
            raise self._fault("not", "A negation is supported of types or of required names only.")

    def condition(self, schema: object) -> None:
        if not {"then", "else"} & self._schema.keys():
            return
        form = self._nested("if", schema)
        if not isinstance(form, bool):
            raise self._fault("if", "Conditions are not supported: use anyOf.")
        taken = "then" if form else "else"
        if taken in self._schema:
            self._parts.append(self._nested(taken, self._schema[taken]))

    def consequence(self, schema: object) -> None:
        """Part of a condition."""

    def content(self, key: str, value: object) -> None:
        """What a text holds: told, not enforced, since 2019-09."""
        if self._check.draft < 2019:
            raise self._fault(key, "Not supported in this draft, which lets it be enforced.")

    # --- numbers

    def bound(self, key: str, value: object) -> None:
        number = _number(value, self._at(key))
        if key.startswith("exclusive") and number == int(number) and self._may_leak(key, number):
            upwards = key == "exclusiveMinimum"
            number = _beside(number, upwards=upwards)
            key = "minimum" if upwards else "maximum"
        narrower = max if key.lower().endswith("minimum") else min
        self._out[key] = narrower(number, self._out.get(key, number))

    def _may_leak(self, key: str, number: float) -> bool:
        """Whether an excluded whole number would be let through: where the other bound is less
        than one away. What is allowed begins a little beside it then."""
        others = ("maximum", "exclusiveMaximum")
        if key == "exclusiveMaximum":
            others = ("minimum", "exclusiveMinimum")
        bounds = [self._schema[other] for other in others if other in self._schema]
        return self._check.combines or any(
            abs(_number(bound, self._path) - number) < 1 for bound in bounds
        )

    def multiple_of(self, value: object) -> None:
        number = _number(value, self._at("multipleOf"))
        if number <= 0:
            raise self._fault("multipleOf", "A multiple is of a number above 0.")
        digits = f"{number:.10f}".rstrip("0").rstrip(".") if isinstance(number, float) else ""
        if number > 2**31 or (isinstance(number, float) and float(digits or 0) != number):
            raise self._fault("multipleOf", "Up to 2^31, and up to ten digits behind the point.")
        self._out["multipleOf"] = number

    # --- strings

    def length(self, key: str, value: object) -> None:
        count = _count(value, self._at(key))
        if count > MAX_LENGTH:
            raise self._fault(key, f"Lengths are supported up to {MAX_LENGTH}.")
        self._out[key] = count

    def pattern(self, pattern: object) -> None:
        if not isinstance(pattern, str):
            raise self._fault("pattern", "A pattern is a string.")
        self._out["pattern"] = self._anchored("pattern", pattern)

    def format(self, name: object) -> None:
        if not isinstance(name, str):
            raise self._fault("format", "A format is a string.")
        types = set(_listed(self._schema.get("type", list(TYPES))))
        if name in formats.FORMATS:
            if "string" in types:
                written = self._anchored("format", f"^(?:{formats.FORMATS[name]})$")
                self._parts.append({"pattern": written})
        elif name in formats.INTEGERS and types <= {"integer", "null"}:
            low, high = formats.INTEGERS[name]
            self._parts.append({"minimum": low, "maximum": high})
        elif not (name in formats.NUMBERS and "string" not in types) and name not in formats.HINTS:
            raise self._fault("format", f"The format {name[:100]!r} is not supported.")

    def _anchored(self, key: str, pattern: str) -> str:
        try:
            return f"^(?:{search_pattern(pattern)})$"
        except GrammarError as error:
            raise self._fault(key, error.reason) from None

    # --- arrays

    def items(self, schema: object) -> None:
        if isinstance(schema, list):
            if self._check.draft > 2019 and "prefixItems" in self._schema:
                raise self._fault("items", "A list of items is prefixItems.")
            self._out["prefixItems"] = self._branches("items", schema, may_be_empty=True)
            rest = self._schema.get("additionalItems", True)
            self._out["items"] = self._nested("additionalItems", rest)
        else:
            self._out["items"] = self._nested("items", schema)

    def additional_items(self, schema: object) -> None:
        if not isinstance(self._schema.get("items"), list):
            if self._check.draft > 2019:
                raise self._fault("additionalItems", "Beside a list of items only.")
            self._nested("additionalItems", schema)

    def prefix_items(self, schemas: object) -> None:
        if self._check.draft < 2020:
            raise self._fault("prefixItems", "Not in this draft.")
        self._out["prefixItems"] = self._branches("prefixItems", schemas, may_be_empty=True)

    def number_of_items(self, key: str, value: object) -> None:
        count = _count(value, self._at(key))
        if count > MAX_ITEMS:
            raise self._fault(key, f"Numbers of items are supported up to {MAX_ITEMS}.")
        self._out[key] = count

    def unique_items(self, unique: object) -> None:
        if not isinstance(unique, bool):
            raise self._fault("uniqueItems", "Either true or false.")
        most = self._schema.get("maxItems", 2)
        if unique and not (isinstance(most, int | float) and most <= 1):
            raise self._fault("uniqueItems", "That items differ is not supported.")

    def contains(self, schema: object) -> None:
        form = self._nested("contains", schema)
        least = _count(self._schema.get("minContains", 1), self._at("minContains"))
        if "maxContains" in self._schema or not (least == 0 or form is True):
            raise self._fault("contains", "What an array contains is not supported: use items.")
        if least:
            self._parts.append({"minItems": least})

    def number_contained(self, value: object) -> None:
        """Part of contains, and without meaning where there is none."""
        if "contains" in self._schema:
            return
        _count(value, self._path)

    # --- objects

    def properties(self, schemas: object) -> None:
        if len(self._mapping("properties", schemas)) > MAX_PROPERTIES:
            raise self._fault("properties", f"An object has at most {MAX_PROPERTIES} of them.")
        self._out["properties"] = self._named("properties", schemas)

    def pattern_properties(self, schemas: object) -> None:
        patterns: dict[str, Form] = {}
        for pattern, form in self._named("patternProperties", schemas).items():
            try:
                written = f"^(?:{search_pattern(pattern)})$"
            except GrammarError as error:
                where = self._at("patternProperties") + _step(pattern)
                raise GrammarError(error.reason, where) from None
            patterns[written] = _all([patterns[written], form]) if written in patterns else form
        self._out["patternProperties"] = patterns

    def additional_properties(self, schema: object) -> None:
        self._out["additionalProperties"] = self._nested("additionalProperties", schema)

    def required(self, names: object) -> None:
        self._out["required"] = self._strings("required", names)

    def least_properties(self, value: object) -> None:
        least = _count(value, self._at("minProperties"))
        required = self._schema.get("required", [])
        known = len(set(required)) if isinstance(required, list) else 0
        if least > known + 1:
            raise self._fault("minProperties", "At most one more than are required is supported.")
        if least > known:
            self._out["minProperties"] = least

    def most_properties(self, value: object) -> None:
        most = _count(value, self._at("maxProperties"))
        named = self._schema.get("properties", {})
        closed = self._schema.get("additionalProperties") is False
        if closed and "patternProperties" not in self._schema and len(named) <= most:
            return
        if most > MAX_ITEMS:
            raise self._fault("maxProperties", f"Supported up to {MAX_ITEMS}.")
        self._out["maxProperties"] = most

    def property_names(self, schema: object) -> None:
        form = self._nested("propertyNames", schema)
        pattern = self._pattern_of_names(form)
        if pattern is not None:
            self._parts.append(
                {"patternProperties": {pattern: True}, "additionalProperties": False}
            )

    def _pattern_of_names(self, form: Form) -> str | None:
        if isinstance(form, dict):
            form = (
                {key: form[key] for key in form if key != "type"} if _strings_too(form) else False
            )
            form = form or True
        if form is True:
            return None
        if form is False:
            return "^(?:[a&&b])$"
        if form.keys() == {"pattern"}:
            return str(form["pattern"])
        if form.keys() == {"enum"}:
            names = [name for name in form["enum"] if isinstance(name, str)]
            return f"^(?:{'|'.join(map(literal_pattern, names)) or '[a&&b]'})$"
        if form.keys() <= {"minLength", "maxLength"}:
            return f"^(?s:.{{{form.get('minLength', 0)},{form.get('maxLength', '')}}})$"
        raise self._fault("propertyNames", "Supported by one pattern, by length, or by an enum.")

    def dependent_required(self, names: object) -> None:
        for name, others in self._mapping("dependentRequired", names).items():
            self._depends(name, {"required": self._strings("dependentRequired", others)})

    def dependent_schemas(self, schemas: object) -> None:
        for name, form in self._named("dependentSchemas", schemas).items():
            self._depends(name, form)

    def dependencies(self, given: object) -> None:
        for name, dependency in self._mapping("dependencies", given).items():
            if isinstance(dependency, list):
                form: Form = {"required": self._strings("dependencies", dependency)}
            else:
                form = self._nested("dependencies", dependency)
            self._depends(name, form)

    def _depends(self, name: str, form: Form) -> None:
        if len(self._parts) >= MAX_DEPENDENCIES:
            raise GrammarError(
                f"At most {MAX_DEPENDENCIES} dependencies in one object are supported.", self._path
            )
        absent = {"properties": {name: False}}
        present = _all([{"properties": {name: True}, "required": [name]}, form])
        self._parts.append(_any([absent, present]))

    # --- what nothing else has looked at

    def unevaluated_properties(self, schema: object) -> None:
        if self._vacuous("unevaluatedProperties", schema) or "additionalProperties" in self._schema:
            return
        self._out["additionalProperties"] = self._nested("unevaluatedProperties", schema)

    def unevaluated_items(self, schema: object) -> None:
        if self._vacuous("unevaluatedItems", schema) or "items" in self._schema:
            return
        if "contains" in self._schema:
            raise self._fault("unevaluatedItems", "Not supported beside contains.")
        self._out["items"] = self._nested("unevaluatedItems", schema)

    def _vacuous(self, key: str, schema: object) -> bool:
        if schema is True:
            return True
        if any(word in self._schema for word in _IN_PLACE):
            raise self._fault(key, "Not supported beside other schemas for the same value.")
        return False

    # --- parts

    def _nested(self, key: str, schema: object) -> Form:
        return self._check.nested(schema, self._at(key), self._depth)

    def _branches(self, key: str, schemas: object, *, may_be_empty: bool = False) -> list[Form]:
        if not isinstance(schemas, list) or not (schemas or may_be_empty):
            raise self._fault(key, f"{key} is a list of schemas.")
        return [
            self._check.nested(schema, f"{self._at(key)}[{place}]", self._depth)
            for place, schema in enumerate(schemas)
        ]

    def _named(self, key: str, schemas: object) -> dict[str, Form]:
        return {
            name: self._check.nested(schema, self._at(key) + _step(name), self._depth)
            for name, schema in self._mapping(key, schemas).items()
        }

    def _mapping(self, key: str, given: object) -> dict[str, Any]:
        if not isinstance(given, dict):
            raise self._fault(key, f"{key} is an object.")
        return given

    def _strings(self, key: str, given: object) -> list[str]:
        if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
            raise self._fault(key, "A list of names.")
        return list(dict.fromkeys(given))

    def _at(self, key: str) -> str:
        return self._path + _step(key)

    def _fault(self, key: str, reason: str) -> GrammarError:
        return GrammarError(reason, self._at(key))


_Rewriter = Callable[[_Rewrite, object], None]


def _keyed(method: Callable[[_Rewrite, str, object], None], key: str) -> _Rewriter:
    return lambda rewrite, value: method(rewrite, key, value)


_KEYWORDS: dict[str, _Rewriter] = {
    "type": _Rewrite.type,
    "enum": _Rewrite.enum,
    "const": _Rewrite.const,
    "$ref": _Rewrite.reference,
    "allOf": _Rewrite.all_of,
    "anyOf": _Rewrite.any_of,
    "oneOf": _Rewrite.one_of,
    "not": _Rewrite.negation,
    "if": _Rewrite.condition,
    "contentEncoding": _keyed(_Rewrite.content, "contentEncoding"),
    "contentMediaType": _keyed(_Rewrite.content, "contentMediaType"),
    "contentSchema": _keyed(_Rewrite.content, "contentSchema"),
    "then": _Rewrite.consequence,
    "else": _Rewrite.consequence,
    "minimum": _keyed(_Rewrite.bound, "minimum"),
    "maximum": _keyed(_Rewrite.bound, "maximum"),
    "exclusiveMinimum": _keyed(_Rewrite.bound, "exclusiveMinimum"),
    "exclusiveMaximum": _keyed(_Rewrite.bound, "exclusiveMaximum"),
    "multipleOf": _Rewrite.multiple_of,
    "minLength": _keyed(_Rewrite.length, "minLength"),
    "maxLength": _keyed(_Rewrite.length, "maxLength"),
    "pattern": _Rewrite.pattern,
    "format": _Rewrite.format,
    "items": _Rewrite.items,
    "additionalItems": _Rewrite.additional_items,
    "prefixItems": _Rewrite.prefix_items,
    "minItems": _keyed(_Rewrite.number_of_items, "minItems"),
    "maxItems": _keyed(_Rewrite.number_of_items, "maxItems"),
    "uniqueItems": _Rewrite.unique_items,
    "contains": _Rewrite.contains,
    "minContains": _Rewrite.number_contained,
    "maxContains": _Rewrite.number_contained,
    "unevaluatedItems": _Rewrite.unevaluated_items,
    "properties": _Rewrite.properties,
    "patternProperties": _Rewrite.pattern_properties,
    "additionalProperties": _Rewrite.additional_properties,
    "required": _Rewrite.required,
    "minProperties": _Rewrite.least_properties,
    "maxProperties": _Rewrite.most_properties,
    "propertyNames": _Rewrite.property_names,
    "dependentRequired": _Rewrite.dependent_required,
    "dependentSchemas": _Rewrite.dependent_schemas,
    "dependencies": _Rewrite.dependencies,
    "unevaluatedProperties": _Rewrite.unevaluated_properties,
}


def _draft(declared: object, path: str, outer: int | None = None) -> int:
    if declared is None:
        return 2020
    draft = _DRAFTS.get(declared.removesuffix("#")) if isinstance(declared, str) else None
    if draft is None:
        raise GrammarError("Drafts 2020-12, 2019-09, 7 and 6 are supported.", path)
    if outer is not None and draft != outer:
        raise GrammarError("One schema is of one draft.", path)
    return draft


def _number(value: object, path: str) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise GrammarError("A number is wanted.", path)
    try:
        exact = math.isfinite(value) and int(float(value)) == value if _whole(value) else True
    except OverflowError:
        exact = False
    if not exact:
        raise GrammarError("The number is no double, so it could not be compared exactly.", path)
    return value


def _beside(whole: int | float, *, upwards: bool) -> float:
    """A number that close that nothing of interest lies between."""
    step = max(1e-9, abs(whole) * 1e-12)
    if step > 0.5:
        return math.nextafter(whole, math.inf if upwards else -math.inf)
    return whole + step if upwards else whole - step


def _whole(value: int | float) -> bool:
    return isinstance(value, int) or not math.isfinite(value)


def _spelled(value: object) -> bool:
    """Whether our JSON has a spelling for all of its characters."""
    if isinstance(value, dict):
        return all(_spelled(part) for item in value.items() for part in item)
    if isinstance(value, list):
        return all(map(_spelled, value))
    return not isinstance(value, str) or UNSPELLED.isdisjoint(value)


def _count(value: object, path: str) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise GrammarError("A whole number of at least 0 is wanted.", path)
    return value


def _any(branches: Iterable[Form]) -> Form:
    possible = [branch for branch in branches if branch is not False]
    if True in possible:
        return True
    if len(possible) < 2:
        return possible[0] if possible else False
    return {"anyOf": possible}


def _all(parts: Iterable[Form]) -> Form:
    needed = [part for part in parts if part is not True]
    if False in needed:
        return False
    if len(needed) < 2:
        return needed[0] if needed else True
    return {"allOf": needed}


def _listed(types: object) -> list[str]:
    return [types] if isinstance(types, str) else list(types) if isinstance(types, list) else []


def _strings_too(form: dict[str, Any]) -> bool:
    return "type" not in form or "string" in _listed(form["type"])


def _only_requires(form: Form) -> bool:
    return (
        isinstance(form, dict)
        and bool(form.get("required"))
        and form.keys() <= {"required", "type"}
        and form.get("type", "object") == "object"
    )


def _without(name: str) -> Form:
    """Objects that don't have that name."""
    return {"type": "object", "properties": {name: False}}


def _one_required(names: list[list[str]]) -> Form:
    """Objects that have all the names of exactly one of the lists."""
    return _any(
        _all(
            [
                {"type": "object", "required": wanted},
                *(
                    _any(_without(name) for name in other if name not in wanted)
                    for at, other in enumerate(names)
                    if at != place
                ),
            ]
        )
        for place, wanted in enumerate(names)
    )


def _step(key: str) -> str:
    plain = key.replace("_", "").replace("$", "").isalnum() and not key[0].isdigit()
    return f".{key[:100]}" if plain else f"[{json.dumps(key[:100], ensure_ascii=False)}]"


def _refuse_circles(definitions: dict[str, Form]) -> None:
    """Where following references comes back to where it was without a step into a document."""
    ahead = {name: _references_in_place(form) for name, form in definitions.items()}
    left = set(ahead)
    while left:
        leaves = {name for name in left if left.isdisjoint(ahead[name])}
        if not leaves:
            raise GrammarError("A reference leads back to itself and describes nothing.", "$")
        left -= leaves


def _references_in_place(form: Form) -> list[str]:
    if isinstance(form, bool):
        return []
    found = [form["$ref"].rpartition("/")[2]] if "$ref" in form else []
    for key in ("allOf", "anyOf", "oneOf"):
        for part in form.get(key, ()):
            found += _references_in_place(part)
    return found
