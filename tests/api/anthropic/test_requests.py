from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.api.anthropic.request import (
    CountRequest,
    MessagesRequest,
    parse_count_request,
    parse_messages_request,
)
from headrace.api.body import BodyError

HI: Any = {"role": "user", "content": "hi"}
USE: Any = {"type": "tool_use", "id": "toolu_1", "name": "pick", "input": {"n": 1}}
RESULT: Any = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "7"}
CALLED: Any = [HI, {"role": "assistant", "content": [USE]}]
TOOL: Any = {"name": "pick", "input_schema": {"type": "object", "properties": {}}}


def messages(**fields: Any) -> MessagesRequest:
    body = {"model": "m", "messages": [HI], "max_tokens": 2000, **fields}
    request = parse_messages_request(json.dumps(body).encode())
    assert request.calls is None or request.tools
    return request


def count(**fields: Any) -> CountRequest:
    return parse_count_request(json.dumps({"model": "m", "messages": [HI], **fields}).encode())


def conversation(*said: Any, **fields: Any) -> list[dict[str, Any]]:
    return messages(messages=list(said), **fields).conversation()


def text(words: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **fields}


def refusal(**fields: Any) -> BodyError:
    with pytest.raises(BodyError) as caught:
        messages(**fields).conversation()
    assert (caught.value.param or "") in caught.value.message
    return caught.value


def test_what_a_request_does_not_say_is_left_to_the_model() -> None:
    request = messages()
    drawing = request.parameters
    assert (drawing.temperature, drawing.top_p, drawing.top_k) == (None, None, None)
    assert (drawing.stops, request.stream, request.service_tier) == ((), False, "auto")
    assert (request.calls, request.thinking) == (None, None)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": []}]}, "messages[0].content"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{**HI, "name": "n"}]}, "messages[0].name"),
        ({"system": 7}, "system"),
        ({"system": [{"type": "image"}]}, "system[0].type"),
        ({"stop_sequences": "END"}, "stop_sequences"),
        ({"stop_sequences": [""]}, "stop_sequences[0]"),
        ({"temperature": 1.01}, "temperature"),
        ({"top_p": -0.1}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"stream": "true"}, "stream"),
        ({"metadata": {"user": "u"}}, "metadata.user"),
        ({"service_tier": "priority"}, "service_tier"),
        ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
        ({"thinking": {"type": "enabled", "budget_tokens": 0}}, "thinking.budget_tokens"),
        ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, "thinking.budget_tokens"),
        ({"thinking": {"type": "deep"}}, "thinking.type"),
        ({"thinking": {"type": "adaptive", "display": "hidden"}}, "thinking.display"),
        ({"output_config": {"effort": "none"}}, "output_config.effort"),
        ({"output_config": {"format": {"type": "text"}}}, "output_config.format.type"),
        ({"cache_control": {"type": "forever"}}, "cache_control.type"),
        ({"n": 2}, "n"),
        ({"seed": 1}, "seed"),
    ],
)
def test_what_is_missing_wrong_or_unknown_is_refused(fields: dict[str, Any], param: str) -> None:
    assert refusal(**fields).param == param


@pytest.mark.parametrize("field", ["container", "mcp_servers", "diagnostics", "speed"])
def test_what_we_cannot_honour_is_refused_by_name(field: str) -> None:
    error = refusal(**{field: {"a": 1}})
    assert error.param == field
    assert "not supported" in error.message
    messages(**{field: None})


@pytest.mark.parametrize("type", ["image", "document", "search_result", "container_upload"])
def test_blocks_that_are_not_text_are_refused_by_their_type(type: str) -> None:
    block = {"type": type, "source": {"type": "url", "url": "x"}}
    said = [{"role": "user", "content": [text("see"), block]}]
    error = refusal(messages=said)
    assert error.param == "messages[0].content[1].type"
    assert type in error.message
    result = {**RESULT, "content": [block]}
    error = refusal(messages=[*CALLED, {"role": "user", "content": [result]}])
    assert str(error.param).startswith("messages[2].content[0].content[0]")


@pytest.mark.parametrize("type", ["redacted_thinking", "server_tool_use", "tool_result"])
def test_the_assistant_says_and_calls_nothing_else(type: str) -> None:
    said = [HI, {"role": "assistant", "content": [{"type": type}]}, HI]
    assert refusal(messages=said).param == "messages[1].content[0].type"


def test_cache_control_may_stand_wherever_anthropic_has_it() -> None:
    mark = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    said = [
        {"role": "user", "content": [text("hi", **mark)]},
        {"role": "assistant", "content": [{**USE, **mark}]},
        {"role": "user", "content": [{**RESULT, **mark, "content": [text("7", **mark)]}]},
    ]
    messages(messages=said, system=[text("s", **mark)], tools=[{**TOOL, **mark}], **mark)


def test_a_conversation_is_as_templates_read_it() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    said = [
        HI,
        {"role": "assistant", "content": [thought, text("I'll "), text("see."), USE]},
        {"role": "user", "content": [{**RESULT, "is_error": True}, text("Well?")]},
    ]
    call = {"id": "toolu_1", "type": "function"}
    call |= {"function": {"name": "pick", "arguments": {"n": 1}}}
    assert conversation(*said, system=[text("a"), text("b")]) == [
        {"role": "system", "content": "ab"},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "I'll see.",
            "reasoning_content": "hm",
            "tool_calls": [call],
        },
        {"role": "tool", "content": "Error: 7", "tool_call_id": "toolu_1", "name": "pick"},
        {"role": "user", "content": "Well?"},
    ]


def test_messages_of_one_role_are_one() -> None:
    again = {"role": "user", "content": [text("and "), text("again")]}
    system = {"role": "system", "content": "t"}
    assert conversation(system, HI, again, system, HI, system="s") == [
        {"role": "system", "content": "s\n\nt"},
        {"role": "user", "content": "hi\n\nand again"},
        {"role": "system", "content": "t"},
        {"role": "user", "content": "hi"},
    ]


def test_results_out_of_call_order_are_rendered_in_call_order() -> None:
    other = {**USE, "id": "toolu_2"}
    said = [HI, {"role": "assistant", "content": [USE, other]}]
    results = [{**RESULT, "tool_use_id": "toolu_2"}, RESULT]
    told = conversation(*said, *({"role": "user", "content": [result]} for result in results))
    assert [m.get("tool_call_id") for m in told] == [None, None, "toolu_1", "toolu_2"]


@pytest.mark.parametrize(
    ("said", "param"),
    [
        (CALLED, "messages[1].content[0]"),
        (
            [HI, {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]}],
            "messages[1].content[0]",
        ),
        ([*CALLED, HI], "messages[2]"),
        ([*CALLED, {"role": "assistant", "content": "so"}, HI], "messages[3]"),
        ([{"role": "user", "content": [RESULT]}], "messages[0].content[0].tool_use_id"),
        (
            [*CALLED, {"role": "user", "content": [RESULT, RESULT]}],
            "messages[2].content[1].tool_use_id",
        ),
        (
            [*CALLED, {"role": "user", "content": [{**RESULT, "tool_use_id": "toolu_9"}]}],
            "messages[2].content[0].tool_use_id",
        ),
        (
            [*CALLED, {"role": "user", "content": [text("so"), RESULT]}],
            "messages[2].content[1]",
        ),
        ([HI, {"role": "assistant", "content": [USE, USE]}, HI], "messages[1].content[1].id"),
    ],
)
def test_calls_and_results_that_do_not_belong_together(said: list[Any], param: str) -> None:
    assert refusal(messages=said).param == param


def test_an_assistant_that_said_nothing_may_be_sent_back() -> None:
    told = conversation(HI, {"role": "assistant", "content": []}, HI)
    assert [message["content"] for message in told] == ["hi", "", "hi"]


def test_tools_and_how_they_are_chosen() -> None:
    other = {**TOOL, "name": "other", "type": "custom", "description": "d", "strict": True}
    tools = [TOOL, other]

    def calls(**choice: Any) -> tuple[list[int], bool, bool]:
        found = messages(tools=tools, **({"tool_choice": choice} if choice else {})).calls
        assert found is not None
        assert [known.name for known in found.functions] == ["pick", "other"]
        return list(found.callable), found.must, found.several

    assert calls() == calls(type="auto") == ([0, 1], False, True)
    assert calls(type="auto", disable_parallel_tool_use=True) == ([0, 1], False, False)
    assert calls(type="any") == ([0, 1], True, True)
    assert calls(type="tool", name="other", disable_parallel_tool_use=True) == ([1], True, False)
    assert messages(tools=tools, tool_choice={"type": "none"}).calls is None
    assert messages(tools=[]).calls is None


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [TOOL, TOOL]}, "tools[1].name"),
        ({"tools": [{"name": "a b", "input_schema": {}}]}, "tools[0].name"),
        ({"tools": [{"name": "a"}]}, "tools[0].input_schema"),
        (
            {"tools": [{"name": "a", "input_schema": {"type": "array"}}]},
            "tools[0].input_schema.type",
        ),
        ({"tools": [{**TOOL, "type": "bash_20250124"}]}, "tools[0].type"),
        ({"tools": [{**TOOL, "defer_loading": True}]}, "tools[0].defer_loading"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "x"}}, "tool_choice.name"),
        ({"tools": [TOOL], "tool_choice": {"type": "required"}}, "tool_choice.type"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tools": [{**TOOL, "eager_input_streaming": False}]}, "tools[0].eager_input_streaming"),
        ({"tools": [{**TOOL, "allowed_callers": ["code"]}]}, "tools[0].allowed_callers[0]"),
        ({"tools": [{**TOOL, "input_examples": [{"n": 1}]}]}, "tools[0].input_examples[0]"),
    ],
)
def test_tools_that_make_no_sense(fields: dict[str, Any], param: str) -> None:
    assert refusal(**fields).param == param


@pytest.mark.parametrize("field", ["max_tokens", "stream", "temperature", "stop_sequences"])
def test_a_count_is_of_prompts_alone(field: str) -> None:
    with pytest.raises(BodyError) as refused:
        count(**{field: 1})
    assert refused.value.param == field
    assert count(system="s", tools=[TOOL]).calls


@pytest.mark.parametrize(
    "fields",
    [
        {"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}},
        {
            "context_management": {
                "edits": [{"type": "clear_thinking_20251015", "keep": {"type": "all"}}]
            }
        },
        {"context_management": {"edits": []}},
        {"thread": {"type": "create"}, "speed": "standard", "mcp_servers": []},
        {"tool_choice": {"type": "auto"}},
        {
            "tools": [
                {
                    **TOOL,
                    "allowed_callers": ["direct"],
                    "defer_loading": False,
                    "eager_input_streaming": True,
                    "input_examples": [],
                }
            ]
        },
    ],
)
def test_values_that_change_nothing_are_accepted(fields: dict[str, Any]) -> None:
    messages(**fields)
    count(**fields)


@pytest.mark.parametrize(
    ("edit", "param"),
    [
        ({"type": "clear_tool_uses_20250919"}, "context_management.edits[0].type"),
        ({"type": "clear_thinking_20251015"}, "context_management.edits[0].keep"),
        (
            {"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 1}},
            "context_management.edits[0].keep",
        ),
    ],
)
def test_edits_that_would_change_the_prompt_are_refused(edit: Any, param: str) -> None:
    assert str(refusal(context_management={"edits": [edit]}).param).startswith(param)


def test_blocks_sent_back_with_empty_fields_are_accepted() -> None:
    use = {**USE, "caller": {"type": "direct"}, "toolset_name": None}
    said = {"role": "assistant", "content": [text("so", citations=[]), use]}
    told = {"role": "user", "content": [{**RESULT, "toolset_name": None}]}
    assert len(conversation(HI, said, told)) == 3


def test_a_last_message_of_the_assistants_is_continued() -> None:
    request = messages(messages=[HI, {"role": "assistant", "content": "The"}])
    assert request.continues
    assert request.conversation()[-1] == {"role": "assistant", "content": "The"}
    assert not messages().continues


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"thinking": {"type": "enabled", "budget_tokens": 5}}, "thinking"),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": {}}}},
            "output_config.format",
        ),
    ],
)
def test_an_answer_that_continues_has_no_thoughts_and_no_form(
    fields: dict[str, Any], param: str
) -> None:
    said = [HI, {"role": "assistant", "content": "The"}]
    assert refusal(messages=said, **fields).param == param
    with pytest.raises(BodyError):
        count(messages=said, **fields)


BILLING = "x-anthropic-billing-header: cc_version=2.1.197.1c0; cc_entrypoint=sdk-cli; cch=ab1;"


@pytest.mark.parametrize(
    "line",
    [
        BILLING,
        BILLING.replace(" cch=ab1;", ""),
        BILLING.replace("ab1", "9"),
        f"{BILLING}\n",
        f"{BILLING} cc_workload=every night; cc_is_subagent=true;",
        f"{BILLING} cc-v2=;",
    ],
)
def test_a_billing_line_is_no_part_of_the_prompt(line: str) -> None:
    rest = [text("You help.", cache_control={"type": "ephemeral"}), text(" Briefly.")]
    told = conversation(HI, system=[text(line), *rest])
    assert told == conversation(HI, system=rest)
    assert conversation(HI, system=[text(line)]) == conversation(HI)


@pytest.mark.parametrize(
    "system",
    [
        BILLING,
        [text("You help."), text(BILLING)],
        [text(f"{BILLING} You help.")],
        [text(f"{BILLING}\nYou help.")],
        [text("x-anthropic-billing-header: none")],
    ],
)
def test_what_only_resembles_a_billing_line_is_part_of_the_prompt(system: Any) -> None:
    told = conversation(HI, system=system)[0]
    whole = system if isinstance(system, str) else "".join(block["text"] for block in system)
    assert told == {"role": "system", "content": whole}
