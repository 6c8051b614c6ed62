"""A whole schema on its way to its form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.grammar.errors import GrammarError
from headrace.grammar.schemas import arrays, combining, numbers, objects, strings
from headrace.grammar.schemas.complement import complement
from headrace.grammar.schemas.dialect import draft_of, read
from headrace.grammar.schemas.exclusion import Exclusion
from headrace.grammar.schemas.form import Form, all_of, any_of, referred, step
from headrace.grammar.schemas.node import Branch, Node, Rewriter
from headrace.grammar.schemas.resources import Resources, Target
from headrace.grammar.schemas.satisfaction import satisfiable
from headrace.grammar.schemas.values import number

MAX_DEPTH = 32
MAX_SCHEMAS = 3_000
MAX_VALUES = 5_000

_REWRITERS: dict[str, Rewriter] = {
    **combining.REWRITERS,
    **numbers.REWRITERS,
    **strings.REWRITERS,
    **arrays.REWRITERS,
    **objects.REWRITERS,
}


@dataclass(frozen=True, slots=True)
class _Choice:
    """A `oneOf`, and the form that waits for what becomes of it."""

    branches: list[Branch]
    beside: Form
    path: str
    form: dict[str, Any]


class SchemaDocument:
    """Rewrites one schema (`node.Document`)."""

    def __init__(self, root: object, *, combines: bool) -> None:
        """combines: whether one value may have to satisfy several schemas in it."""
        self.combines = combines
        self._root = root
        self._count = 0
        self._values = 0
        self._definitions: dict[str, Form] = {}
        self._names: dict[str, str] = {}  # of definitions, by their places
        self._pending: list[tuple[str, Target]] = []
        self._choices: list[_Choice] = []
        declared = root.get("$schema") if isinstance(root, dict) else None
        self.draft = draft_of(declared, "$.$schema")
        self._resources = Resources(root, self.draft)

    def form(self) -> Form:
        """Raises GrammarError."""
        form = self.nested(self._root, "$", 0, "")
        if form is True and not self._pending:
            return True
        self._define()
        while self._choices:
            choice = self._choices.pop(0)  # inner ones come first
            made = self._one_of(choice)
            self._define()
            choice.form.clear()
            choice.form.update(made if isinstance(made, dict) else {"allOf": [made]})
        if form is False:
            raise GrammarError("No document satisfies the schema.", "$")
        if isinstance(form, bool):
            return form
        _refuse_circles(self._definitions)
        form, definitions = satisfiable(form, self._definitions)
        return {**form, "$defs": definitions} if definitions else form

    # --- for its nodes

    def nested(self, schema: object, path: str, depth: int, base: str) -> Form:
        if isinstance(schema, bool):
            return schema
        return self._node(schema, path, depth, base).form(_REWRITERS)

    def complement(self, schema: object, path: str, depth: int, base: str) -> Form:
        if isinstance(schema, bool):
            return not schema
        return complement(self._node(schema, path, depth, base))

    def reference(self, word: str, target: object, base: str, path: str) -> Form:
        found = self._found(word, target, base, path)
        if found.place not in self._names:
            name = self._names[found.place] = f"d{len(self._names)}"
            self._pending.append((name, found))
        return {"$ref": f"#/$defs/{self._names[found.place]}"}

    def unlike_reference(self, word: str, target: object, base: str, path: str, depth: int) -> Form:
        found = self._found(word, target, base, path)
        return self.complement(found.schema, found.place, depth + 1, found.base)

    def choice(self, branches: list[Branch], beside: Form, path: str) -> Form:
        choice = _Choice(branches, beside, path, {"oneOf": [branch.form for branch in branches]})
        self._choices.append(choice)
        return choice.form

    def value(self, value: object, path: str, depth: int = 0) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise GrammarError(f"A schema has at most {MAX_VALUES} constants in it.", path)
        if depth > MAX_DEPTH:
            raise GrammarError(f"A constant nests at most {MAX_DEPTH} deep.", path)
        if isinstance(value, dict):
            for key, part in value.items():
                self.value(part, path + step(key), depth + 1)
        elif isinstance(value, list):
            for place, part in enumerate(value):
                self.value(part, f"{path}[{place}]", depth + 1)
        elif not isinstance(value, bool | str | None):
            number(value, path)

    # --- parts

    def _node(self, schema: object, path: str, depth: int, base: str) -> Node:
        self._count += 1
        if self._count > MAX_SCHEMAS:
            raise GrammarError(f"A schema has at most {MAX_SCHEMAS} schemas in it.", path)
        if depth > MAX_DEPTH:
            raise GrammarError(f"A schema nests at most {MAX_DEPTH} deep.", path)
        if not isinstance(schema, dict):
            raise GrammarError("A schema is an object or a boolean.", path)
        if depth and "$schema" in schema:
            draft_of(schema["$schema"], path + step("$schema"), self.draft)
        base = self._resources.base_of(schema, base)
        return Node(self, read(schema, self.draft, path), depth, base)

    def _found(self, word: str, target: object, base: str, path: str) -> Target:
        if word == "$dynamicRef":
            return self._resources.find_dynamic(target, base, path)
        if word == "$recursiveRef":
            return self._resources.find_recursive(target, base, path)
        return self._resources.find(target, base, path)

    def _define(self) -> None:
        while self._pending:
            name, target = self._pending.pop()
            self._definitions[name] = self.nested(target.schema, target.place, 1, target.base)

    def _one_of(self, choice: _Choice) -> Form:
        """Each branch without what satisfies another, as far as they don't exclude each other."""
        _refuse_circles(self._definitions)
        branches = [branch for branch in choice.branches if branch.form is not False]
        look = Exclusion(self._definitions)
        overlapping: list[list[Branch]] = [[] for _ in branches]
        for one, branch in enumerate(branches):
            for other in range(one + 1, len(branches)):
                if not look.exclusive(branch.form, branches[other].form, choice.beside):
                    overlapping[one].append(branches[other])
                    overlapping[other].append(branch)
        try:
            return any_of(
                all_of([branch.form, *(other.outside() for other in others)])
                for branch, others in zip(branches, overlapping, strict=True)
            )
        except GrammarError as error:
            raise GrammarError(
                "oneOf is supported where its branches exclude each other, or where it can be "
                f"said what does not satisfy one; but {error.path}: {error.reason}",
                choice.path,
            ) from None


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
    found = [referred(form)] if "$ref" in form else []
    for key in ("allOf", "anyOf", "oneOf"):
        for part in form.get(key, ()):
            found += _references_in_place(part)
    return found
