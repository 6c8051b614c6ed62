"""What all of an answer must follow: its form, the calls in it, and thoughts before both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from headrace.api.body import BodyError
from headrace.api.calls import Calls
from headrace.api.openai.response_format import Form
from headrace.edge.services import Prompts
from headrace.grammar import (
    Grammar,
    GrammarError,
    behind,
    choice,
    gbnf,
    json_object,
    json_rule,
    json_schema,
    lark,
    regex,
)
from headrace.grammar.budget import ThoughtBudget
from headrace.grammar.forms import JsonRule
from headrace.text.reasoning import Thinking
from headrace.text.tools.format import ToolFormat
from headrace.text.tools.grammar import (
    answer_behind_thoughts,
    calls_grammar,
    text_behind_thoughts,
)

T = TypeVar("T")

_UNDECLARED = {
    "additionalProperties",
    "unevaluatedProperties",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "dependentSchemas",
    "dependencies",
    "$ref",
    "$dynamicRef",
}
"""Keywords that may speak of names which `properties` doesn't list."""

_MAKERS: dict[str, Callable[[Any], Grammar]] = {
    "object": lambda _: json_object(),
    "schema": json_schema,
    "regex": regex,
    "choice": choice,
    "grammar": lambda text: gbnf(text) if "::=" in text else lark(text),
}


def answer_grammar(
    form: Form | None,
    calls: Calls | None,
    thinking: Thinking | None,
    prompts: Prompts,
    budget: int | None = None,
) -> Grammar | None:
    """None for free text. budget: tokens that thoughts may take. Raises BodyError naming the place
    in a schema that is refused."""
    grammar = _unbounded(form, calls, thinking, prompts)
    if budget is None or thinking is None:
        return grammar
    if grammar is None:
        grammar = Grammar(text_behind_thoughts(thinking))
    return msgspec.structs.replace(grammar, budget=ThoughtBudget(thinking, budget))


def _unbounded(
    form: Form | None, calls: Calls | None, thinking: Thinking | None, prompts: Prompts
) -> Grammar | None:
    formed = None if form is None else naming(form.param, lambda: _MAKERS[form.kind](form.value))
    if calls is None:
        if formed is None or thinking is None:
            return formed
        return behind(answer_behind_thoughts(thinking), formed)
    answer = formed is not None and not calls.must
    arguments = _arguments(calls)
    rules = calls_grammar(
        _format(form, prompts.tool_format) if answer else prompts.tool_format,
        {name: rule.text for name, rule in arguments.items()},
        must=calls.must,
        several=calls.several and prompts.several_calls,
        control=prompts.control,
        thinking=thinking,
        answer=answer,
    )
    grammar = (
        behind(rules, formed)
        if answer and formed is not None
        else Grammar(rules, free=not calls.must)
    )
    bounds = [grammar.bound, *(rule.bound for rule in arguments.values())]
    least = min((bound for bound in bounds if bound is not None), default=None)
    return msgspec.structs.replace(grammar, bound=least)


def naming(param: str, make: Callable[[], T]) -> T:
    """What is made of a field, whose name a refusal tells. Raises BodyError."""
    try:
        return make()
    except GrammarError as error:
        at = param + error.path.removeprefix("$")
        raise BodyError(f"Invalid '{at}': {error.reason}", at) from None


def _arguments(calls: Calls) -> dict[str, JsonRule]:
    """By function that may be called, the rule of its arguments."""
    rules: dict[str, JsonRule] = {}
    for index in calls.callable:
        function = calls.functions[index]
        rules[function.name] = naming(
            function.param,
            lambda schema=function.parameters: json_rule(_closed(schema), spaced=True),  # type: ignore[misc]
        )
    return rules


def _closed(parameters: dict[str, Any]) -> dict[str, Any]:
    """Arguments by the names that a function declares and no others, if it is left open whether
    there are others: what this describes is described by the parameters, too, and a model won't
    invent arguments that the function doesn't know."""
    schema = {"type": "object", **parameters}
    names = schema.get("properties")
    if isinstance(names, dict) and not _UNDECLARED & schema.keys():
        required = schema.get("required", [])
        if isinstance(required, list) and all(name in names for name in required):
            schema["additionalProperties"] = False
    return schema


def _format(form: Form | None, format: ToolFormat) -> ToolFormat:
    """The format in a shape by which a call can't be taken for the document of a form. Raises
    BodyError if there is none."""
    assert form is not None
    marked = tuple(shape for shape in format.shapes if shape.sure)
    if not marked or form.kind not in ("object", "schema"):
        what = "only JSON" if marked else "no form of an answer"
        raise BodyError(
            f"Invalid '{form.param}': beside 'tools' that may be called or not, this model takes "
            f"{what}.",
            form.param,
        )
    return replace(format, shapes=marked)
