"""Efforts and budgets, told to the templates that know them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.api.body import BodyError
from headrace.api.openai.chat import parse_chat_request
from headrace.edge.template_variables import template_variables
from headrace.text.template import ChatTemplate

SWITCH = "{% if enable_thinking is defined and enable_thinking is false %}x{% endif %}"
OTHER_SWITCH = "{% if not thinking is defined %}{% set thinking = false %}{% endif %}{{ thinking }}"
WRITTEN = "Reasoning: {{ reasoning_effort }}"
COMPARED = "{% if reasoning_effort == 'high' %}a{% elif reasoning_effort == 'none' %}b{% endif %}"
BUDGET = "{{ thinking_budget }}"


def variables(source: str, *, reasons: bool = True, **fields: Any) -> dict[str, object]:
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], **fields}
    request = parse_chat_request(json.dumps(body).encode(), max_choices=1)
    template: Any = ChatTemplate(source, bos_token="", eos_token="")
    return template_variables(request, template, reasons=reasons)


@pytest.mark.parametrize(
    ("source", "effort", "expected"),
    [
        (SWITCH, "none", {"enable_thinking": False}),
        (OTHER_SWITCH, "none", {"thinking": False}),
        (WRITTEN, "low", {"reasoning_effort": "low"}),
        (WRITTEN + SWITCH, "none", {"enable_thinking": False}),
        (COMPARED, "none", {"reasoning_effort": "none"}),
        (COMPARED, "high", {"reasoning_effort": "high"}),
        (WRITTEN, "medium", {"reasoning_effort": "medium"}),
        (SWITCH, "medium", {}),
        (COMPARED, "medium", {}),
    ],
)
def test_an_effort_is_told_in_the_templates_own_terms(
    source: str, effort: str, expected: dict[str, object]
) -> None:
    assert variables(source, reasoning_effort=effort) == expected


@pytest.mark.parametrize(
    ("source", "effort", "known"),
    [
        (SWITCH, "low", "only none"),
        (WRITTEN, "none", "only high, low, medium"),
        (WRITTEN, "xhigh", "only high, low, medium"),
        (COMPARED, "low", "only high, none"),
        ("{{ messages }}", "none", "no reasoning effort"),
    ],
)
def test_an_effort_it_has_no_term_for_is_refused(source: str, effort: str, known: str) -> None:
    with pytest.raises(BodyError, match=known) as refused:
        variables(source, reasoning_effort=effort)
    assert refused.value.param == "reasoning_effort"


def test_budgets_and_variables_by_their_own_names() -> None:
    assert variables(BUDGET, thinking_budget=0) == {"thinking_budget": 0}
    given = {"thinking_budget": 5}
    assert variables(BUDGET, chat_template_kwargs=given) == given
    assert variables(SWITCH) == {}
    with pytest.raises(BodyError, match="knows of none"):
        variables(SWITCH, thinking_budget=5)
    with pytest.raises(BodyError, match="it has enable_thinking"):
        variables(SWITCH, chat_template_kwargs=given)
    with pytest.raises(BodyError, match="so does"):
        variables(BUDGET, thinking_budget=5, chat_template_kwargs=given)


@pytest.mark.parametrize(
    ("source", "fields", "expected"),
    [
        ("{{ messages }}", {"reasoning_effort": "none"}, {}),
        (SWITCH, {"reasoning_effort": "none"}, {"enable_thinking": False}),
        ("{{ messages }}", {"thinking_budget": 0}, {}),
        ("{{ messages }}", {"chat_template_kwargs": {"enable_thinking": False}}, {}),
        ("{{ messages }}", {"chat_template_kwargs": {"thinking": False}}, {}),
    ],
)
def test_a_model_without_thoughts_may_be_told_not_to_think(
    source: str, fields: dict[str, Any], expected: dict[str, object]
) -> None:
    assert variables(source, reasons=False, **fields) == expected


@pytest.mark.parametrize(
    ("reasons", "fields", "param"),
    [
        (False, {"reasoning_effort": "low"}, "reasoning_effort"),
        (False, {"thinking_budget": 1}, "thinking_budget"),
        (
            False,
            {"chat_template_kwargs": {"enable_thinking": True}},
            "chat_template_kwargs.enable_thinking",
        ),
        (
            True,
            {"chat_template_kwargs": {"enable_thinking": False}},
            "chat_template_kwargs.enable_thinking",
        ),
    ],
)
def test_what_would_change_the_answer_is_refused(
    reasons: bool, fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(BodyError) as refused:
        variables("{{ messages }}", reasons=reasons, **fields)
    assert refused.value.param == param
