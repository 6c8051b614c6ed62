"""Where references lead inside one schema: its ids, anchors and pointers. Nothing is fetched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from headrace.grammar.errors import GrammarError
from headrace.grammar.schemas.dialect import id_word
from headrace.grammar.schemas.form import step

_ONE = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_LIST = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
_NAMED = frozenset(
    {
        "$defs",
        "definitions",
        "dependencies",
        "dependentSchemas",
        "patternProperties",
        "properties",
    }
)


@dataclass(frozen=True, slots=True)
class Target:
    """A schema in the document. place: its JSON path. base: what its references are relative to."""

    schema: object
    place: str
    base: str


class Resources:
    """Finds the schemas that references name."""

    def __init__(self, root: object, draft: int) -> None:
        self._draft = draft
        self._word = id_word(draft)
        self._named: dict[str, Target] = {}  # schemas by their ids
        self._anchors: dict[tuple[str, str], Target] = {}  # by base and name
        self._dynamic: dict[str, list[str]] = {}  # bases of those that are dynamic, by name
        self._recursive = 0
        self.base = self.base_of(root, "")
        self._named[""] = self._named[self.base] = Target(root, "$", self.base)
        self._index(root)

    def base_of(self, schema: object, around: str) -> str:
        """What references in the schema are relative to, inside one that has the base `around`."""
        if not isinstance(schema, dict) or (self._draft in (4, 6, 7) and "$ref" in schema):
            return around
        given = schema.get(self._word)
        if not isinstance(given, str) or given.startswith("#"):
            return around
        try:
            return urldefrag(urljoin(around, given)).url
        except ValueError:  # no address at all: nothing can refer to it
            return given

    def find(self, reference: object, base: str, path: str) -> Target:
        """What a reference in a schema with that base leads to. Raises GrammarError."""
        if not isinstance(reference, str):
            raise GrammarError("A reference is a string.", path)
        address, _, fragment = reference.partition("#")
        fragment = unquote(fragment)
        try:
            resource = self._named.get(urldefrag(urljoin(base, address)).url if address else base)
        except ValueError:
            resource = None
        if resource is None:
            raise GrammarError(
                f"Only references into the schema itself are followed, not {reference[:100]!r}.",
                path,
            )
        if fragment and not fragment.startswith("/"):
            found = self._anchors.get((resource.base, fragment))
            if found is None:
                raise GrammarError(f"There is no anchor {reference[:100]!r}.", path)
            return found
        return self._behind(resource, fragment, path)

    def find_dynamic(self, reference: object, base: str, path: str) -> Target:
        """As `find`, for `$dynamicRef`, where it leads to one place whoever comes through."""
        found = self.find(reference, base, path)
        name = str(reference).partition("#")[2]
        bases = self._dynamic.get(name, [])
        if len(bases) > 1 and found.base in bases:
            raise GrammarError("Where it leads depends on the way: not supported.", path)
        return found

    def find_recursive(self, reference: object, base: str, path: str) -> Target:
        """As `find`, for `$recursiveRef`."""
        if reference != "#":
            raise GrammarError("A recursive reference is '#'.", path)
        if self._recursive and len({target.base for target in self._named.values()}) > 1:
            raise GrammarError("Where it leads depends on the way: not supported.", path)
        return self.find("#", base, path)

    def _behind(self, start: Target, pointer: str, path: str) -> Target:
        node, place, base = start.schema, start.place, start.base
        for part in pointer.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and key in node:
                node = node[key]
            elif isinstance(node, list) and key.isdecimal() and int(key) < len(node):
                node = node[int(key)]
            else:
                raise GrammarError(f"There is nothing at '#{pointer[:100]}'.", path)
            place += step(key)
            base = self.base_of(node, base)
        return Target(node, place, base)

    def _index(self, root: object) -> None:
        todo = [Target(root, "$", self.base)]
        while todo:
            target = todo.pop()
            if isinstance(target.schema, dict):
                self._name(target, target.schema)
                todo += [
                    Target(part, target.place + where, self.base_of(part, target.base))
                    for where, part in _parts(target.schema)
                ]

    def _name(self, target: Target, schema: dict[str, Any]) -> None:
        given = schema.get(self._word)
        old = self._draft in (4, 6, 7)
        if isinstance(given, str) and not (old and "$ref" in schema):
            if not given.startswith("#"):
                self._named.setdefault(target.base, target)
            elif old:
                self._anchors[target.base, given[1:]] = target
        if old:
            return
        for word in ("$anchor", "$dynamicAnchor"):
            if isinstance(name := schema.get(word), str):
                self._anchors[target.base, name] = target
        if isinstance(name := schema.get("$dynamicAnchor"), str):
            self._dynamic.setdefault(name, []).append(target.base)
        self._recursive += schema.get("$recursiveAnchor") is True


def _parts(schema: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """The schemas that are parts of one, and their steps."""
    for key, value in schema.items():
        if isinstance(value, dict):
            if key in _NAMED:
                for name, part in value.items():
                    yield step(key) + step(name), part
            elif key in _ONE:
                yield step(key), value
        elif isinstance(value, list) and key in _LIST:
            for place, part in enumerate(value):
                yield f"{step(key)}[{place}]", part
