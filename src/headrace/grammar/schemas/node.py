"""One schema object on its way to its form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from headrace.grammar.errors import GrammarError
from headrace.grammar.schemas.dialect import Words
from headrace.grammar.schemas.form import Form, step


class Document(Protocol):
    """What a schema object needs of the document that it stands in."""

    draft: int
    combines: bool
    """Whether one value may have to satisfy several schemas in it."""

    def nested(self, schema: object, path: str, depth: int, base: str) -> Form:
        """The form of a schema in it."""
        ...

    def complement(self, schema: object, path: str, depth: int, base: str) -> Form:
        """The form of what does not satisfy a schema in it, or of a part of that."""
        ...

    def reference(self, word: str, target: object, base: str, path: str) -> Form:
        """A local name for what a reference leads to."""
        ...

    def unlike_reference(self, word: str, target: object, base: str, path: str, depth: int) -> Form:
        """As `complement`, of what a reference leads to."""
        ...

    def choice(self, branches: list[Branch], beside: Form, path: str) -> Form:
        """A form for values that satisfy exactly one of the branches, settled when all is known.

        beside: what the values satisfy, too.
        """
        ...

    def value(self, value: object, path: str) -> None:
        """Whether a constant can be compared exactly. Raises GrammarError."""
        ...


class Branch(Protocol):
    """Of a `oneOf`."""

    @property
    def form(self) -> Form: ...

    def outside(self) -> Form:
        """What does not satisfy it, or a part of that. Raises GrammarError."""
        ...


class Node:
    """A schema object and what its keywords were rewritten to.

    words: its keywords in today's words. out: keywords of its form. parts: forms that hold beside
    it. depth: how many schemas it stands in. base: what its references are relative to.
    """

    def __init__(self, document: Document, words: Words, depth: int, base: str) -> None:
        self.document = document
        self.words = words.words
        self.path = words.path
        self.depth = depth
        self.base = base
        self.out: dict[str, Any] = {}
        self.parts: list[Form] = []
        self.at = words.at

    def form(self, rewriters: dict[str, Rewriter]) -> Form:
        """Raises GrammarError for a keyword that can't be enforced."""
        parts_first = False
        for key, value in self.words.items():
            rewriters[key](self, value)
            parts_first |= bool(self.parts) and not self.out
        parts = [part for part in self.parts if part is not True]
        if False in parts:
            return False
        if not parts:
            return self.out or True
        if not self.out and len(parts) == 1:
            return parts[0]
        if parts_first:  # properties come in the order of the keywords
            return {"allOf": parts, **self.out}
        return {**self.out, "allOf": parts}

    def nested(self, key: str, schema: object) -> Form:
        return self.document.nested(schema, self.at(key), self.depth + 1, self.base)

    def complement(self, key: str, schema: object) -> Form:
        return self.document.complement(schema, self.at(key), self.depth + 1, self.base)

    def listed(self, key: str, schemas: object, *, may_be_empty: bool = False) -> list[Form]:
        if not isinstance(schemas, list) or not (schemas or may_be_empty):
            raise self.fault(key, f"{key} is a list of schemas.")
        return [
            self.document.nested(schema, f"{self.at(key)}[{place}]", self.depth + 1, self.base)
            for place, schema in enumerate(schemas)
        ]

    def named(self, key: str, schemas: object) -> dict[str, Form]:
        return {
            name: self.document.nested(schema, self.at(key) + step(name), self.depth + 1, self.base)
            for name, schema in self.mapping(key, schemas).items()
        }

    def mapping(self, key: str, given: object) -> dict[str, Any]:
        if not isinstance(given, dict):
            raise self.fault(key, f"{key} is an object.")
        return given

    def strings(self, key: str, given: object) -> list[str]:
        if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
            raise self.fault(key, "A list of names.")
        return list(dict.fromkeys(given))

    def fault(self, key: str, reason: str) -> GrammarError:
        return GrammarError(reason, self.at(key))


Rewriter = Callable[[Node, Any], None]
_Result = TypeVar("_Result")


def keyed(
    function: Callable[[Node, str, Any], _Result], key: str
) -> Callable[[Node, Any], _Result]:
    """A function for one of the keywords that it handles."""
    return lambda node, value: function(node, key, value)
