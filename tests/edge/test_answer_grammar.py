from __future__ import annotations

from typing import Any

import pytest

from headrace.api.calls import Calls, Declared
from headrace.api.openai.response_format import Form
from headrace.edge.answer_grammar import answer_grammar
from headrace.text.reasoning import Thinking
from headrace.text.tools.format import FORMATS


class Prompts:
    """What is asked of prompts (`edge.services.Prompts`)."""

    tool_format = FORMATS["hermes"]
    several_calls = True

    def control(self, text: str) -> int | None:
        return None


def form(most: int) -> Form:
    return Form("schema", {"type": "string", "maxLength": most}, "response_format")


def calls(*bounds: int, must: bool = False) -> Calls:
    declared = [Declared(f"f{most}", None, parameters(most), "tools", "tools") for most in bounds]
    return Calls(declared, range(len(bounds)), must=must, several=True)


def parameters(most: int) -> dict[str, Any]:
    return {"type": "object", "properties": {"t": {"type": "string", "maxLength": most}}}


@pytest.mark.parametrize("thinking", [None, Thinking("<think>", "</think>")])
@pytest.mark.parametrize("budget", [None, 10])
def test_the_least_bound_that_is_not_counted_comes_from_form_and_calls(
    thinking: Thinking | None, budget: int | None
) -> None:
    def bound(form: Form | None, calls: Calls | None) -> int | None:
        grammar = answer_grammar(form, calls, thinking, Prompts(), budget)  # type: ignore[arg-type]
        assert grammar is not None
        return grammar.bound

    assert bound(form(20_000), None) == 20_000
    assert bound(form(100), None) is None
    assert bound(None, calls(100, 30_000, 20_000)) == 20_000
    assert bound(None, calls(100, 30_000, must=True)) == 30_000
    assert bound(form(20_000), calls(30_000)) == 20_000
    assert bound(form(30_000), calls(20_000, 100)) == 20_000
    assert bound(form(100), calls(100)) is None
