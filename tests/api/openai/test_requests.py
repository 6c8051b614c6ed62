from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.api.body import BodyError
from headrace.api.openai.chat import ChatRequest, parse_chat_request
from headrace.api.openai.completions import CompletionRequest, parse_completion_request
from headrace.api.openai.neutral import CHAT, COMPLETIONS
from headrace.api.openai.response_format import Form
from headrace.api.reader import RequestReader

HI = [{"role": "user", "content": "hi"}]


def chat(**fields: Any) -> ChatRequest:
    body = json.dumps({"model": "m", "messages": HI, **fields}).encode()
    return parse_chat_request(body, max_choices=16)


def completion(**fields: Any) -> CompletionRequest:
    body = json.dumps({"model": "m", "prompt": "hi", **fields}).encode()
    return parse_completion_request(body, max_choices=16)


def refusal(parse: Any, **fields: Any) -> BodyError:
    with pytest.raises(BodyError) as caught:
        request = parse(**fields)
        request.conversation() if parse is chat else request.prompts()
    return caught.value


def test_defaults_are_openais() -> None:
    request = chat()
    assert (request.n, request.stream) == (1, False)
    assert (request.temperature, request.top_p) == (None, None), "left to the model"
    assert request.token_limit is None
    assert request.alternatives is None
    assert request.stops == ()


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"stream": "false"}, "stream"),
        ({"stream": 1}, "stream"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_completion_tokens": -1}, "max_completion_tokens"),
        ({"temperature": 2.01}, "temperature"),
        ({"temperature": -0.1}, "temperature"),
        ({"top_p": 1.01}, "top_p"),
        ({"presence_penalty": -2.1}, "presence_penalty"),
        ({"frequency_penalty": 2.1}, "frequency_penalty"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"top_k": -2}, "top_k"),
        ({"min_p": 1.5}, "min_p"),
        ({"seed": 2**63}, "seed"),
        ({"seed": 1.0}, "seed"),
        ({"n": 17}, "n"),
        ({"stop": {"a": 1}}, "stop"),
        ({"stop": ["x", ""]}, "stop[1]"),
        ({"logit_bias": {"7": 1, "a": 1}}, "logit_bias.a"),
        ({"logit_bias": {"4": 1, "5": 101}}, "logit_bias.5"),
        ({"logit_bias": {"-5": 1}}, "logit_bias.-5"),
        ({"logit_bias": [1]}, "logit_bias"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"max_tokens": 4, "max_completion_tokens": 5}, "max_tokens"),
        (
            {"stream": True, "stream_options": {"include_obfuscation": True}},
            "stream_options.include_obfuscation",
        ),
        (
            {"stream": True, "stream_options": {"continuous_usage_stats": True}},
            "stream_options.continuous_usage_stats",
        ),
        ({"stream": True, "stream_options": {"usage": True}}, "stream_options.usage"),
        ({"user": 7}, "user"),
        ({"service_tier": "scale"}, "service_tier"),
        ({"metadata": {"a": 1}}, "metadata.a"),
        ({"chat_template_kwargs": {"a": True, "b": []}}, "chat_template_kwargs.b"),
    ],
)
def test_values_out_of_range_or_type_are_refused(fields: dict[str, Any], param: str) -> None:
    assert refusal(chat, **fields).param == param


@pytest.mark.parametrize(
    "fields",
    [
        {"modalities": ["text", "audio"]},
        {"audio": {"voice": "alloy", "format": "wav"}},
        {"store": True},
        {"store": 0},
        {"prediction": {"type": "content", "content": "x"}},
        {"web_search_options": {}},
        {"functions": [{"name": "f"}]},
        {"length_penalty": 2},
        {"echo": True},
        {"echo": 0},
        {"skip_special_tokens": False},
        {"mirostat": 1, "mirostat_tau": 5},
    ],
)
def test_what_we_cannot_honour_is_refused_by_name(fields: dict[str, Any]) -> None:
    error = refusal(chat, **fields)
    assert error.param == next(iter(fields))
    assert "not supported" in error.message


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": None, "functions": None, "response_format": None},
        {"store": False, "modalities": ["text"], "response_format": {"type": "text"}},
        {"service_tier": "auto"},
        {"service_tier": "flex", "user": "u", "metadata": {"a": "b"}},
        {"prompt_cache_key": "k", "safety_identifier": "s"},
        {"stream": True, "stream_options": {"include_obfuscation": False}},
        {"stop": []},
        {"stream_options": {"include_usage": True, "include_obfuscation": True}},
        {"verbosity": "medium", "best_of": 1, "echo": False, "functions": []},
        {"skip_special_tokens": True, "use_beam_search": False, "early_stopping": False},
        {"length_penalty": 1.0, "typical_p": 1, "tfs_z": 1, "mirostat": 0, "mirostat_tau": 5.5},
        {"parallel_tool_calls": False, "tools": []},
        {"logprobs": False, "top_logprobs": 0},
        {"temperature": 5e-324, "top_p": 0, "top_k": -1},
    ],
)
def test_what_asks_for_what_we_do_anyway_is_let_through(fields: dict[str, Any]) -> None:
    chat(**fields)


def test_stop_may_be_one_text_or_several() -> None:
    assert chat(stop="a").stops == ("a",)
    assert chat(stop=["a", "b"]).stops == ("a", "b")


def test_logprobs_count_alternatives() -> None:
    assert chat(logprobs=True).alternatives == 0
    assert chat(logprobs=True, top_logprobs=3).alternatives == 3
    assert completion(logprobs=2).logprobs == 2


def test_the_newer_name_of_the_limit_wins_where_both_agree() -> None:
    assert chat(max_completion_tokens=5).token_limit == 5
    assert chat(max_completion_tokens=5, max_tokens=5).token_limit_param == "max_completion_tokens"


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([], "messages"),
        (None, "messages"),
        ("hi", "messages"),
        ({}, "messages"),
        ([{}], "messages[0].role"),
        ([{"role": "user"}], "messages[0].content"),
        ([{"role": "user", "content": None}], "messages[0].content"),
        ([{"role": "assistant"}], "messages[0].content"),
        ([*HI, {"role": "wizard", "content": "x"}], "messages[1].role"),
        ([{"role": "user", "content": "x", "weight": 1}], "messages[0].weight"),
        ([{"role": "user", "content": []}], "messages[0].content"),
        ([{"role": "user", "content": ["x"]}], "messages[0].content[0]"),
        ([{"role": "user", "content": [{"type": "video"}]}], "messages[0].content[0].type"),
        ([{"role": "tool", "content": "x"}], "messages[0].tool_call_id"),
    ],
)
def test_faulty_messages_are_named(messages: Any, param: str) -> None:
    assert refusal(chat, messages=messages).param == param


@pytest.mark.parametrize("kind", ["image_url", "input_audio", "file"])
def test_parts_that_are_not_text_are_refused(kind: str) -> None:
    part = {"type": kind, kind: {"url": "http://example.com/x.png"}}
    content = [{"type": "text", "text": "what is this?"}, part]
    error = refusal(chat, messages=[{"role": "user", "content": content}])
    assert error.param == "messages[0].content[1]"
    assert "takes no" in error.message


def test_calls_reach_the_template_with_their_arguments_as_objects() -> None:
    calls = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}]
    said = {"role": "assistant", "tool_calls": calls}
    parsed = {"id": "1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    expected = {"role": "assistant", "content": "", "tool_calls": [parsed]}
    for content in ({}, {"content": None}, {"content": ""}, {"content": []}):
        assert chat(messages=[{**said, **content}, *HI]).conversation()[0] == expected


@pytest.mark.parametrize(
    ("calls", "param"),
    [
        ([{"id": "1", "type": "custom"}], "messages[0].tool_calls[0]"),
        ([{"id": "", "function": {"name": "f", "arguments": ""}}], "messages[0].tool_calls[0].id"),
        ([{"id": "1", "function": {"name": "f", "arguments": "{}"}}] * 2, "messages[0].tool_calls"),
    ],
)
def test_faulty_calls_in_messages_are_named(calls: Any, param: str) -> None:
    with pytest.raises(BodyError) as caught:
        chat(messages=[{"role": "assistant", "content": "", "tool_calls": calls}]).conversation()
    assert caught.value.param is not None
    assert caught.value.param.startswith(param)


def call(id: str, name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(id: str, content: str, **fields: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content, **fields}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        (" \n", {}),
        ("null", {}),
        ('{"city": "Mal', '{"city": "Mal'),
        ("[]", "[]"),
        ('{"a": "\\ud800"}', '{"a": "\\ud800"}'),
        ("[" * 2000, "[" * 2000),
    ],
)
def test_arguments_that_are_no_object_are_none_or_text(text: str, expected: Any) -> None:
    said = {"role": "assistant", "tool_calls": [call("1", arguments=text)]}
    (message, *_) = chat(messages=[said, *HI]).conversation()
    assert message["tool_calls"][0]["function"]["arguments"] == expected


def test_results_out_of_call_order_are_rendered_in_call_order() -> None:
    said = {"role": "assistant", "tool_calls": [call("a"), call("b"), call("c")]}
    results = [result("c", "3"), result("a", "1"), result("b", "2")]
    told = chat(messages=[*HI, said, *results, *HI]).conversation()
    assert [message["content"] for message in told] == ["hi", "", "1", "2", "3", "hi"]


def test_a_result_is_of_the_last_call_with_its_id() -> None:
    turns = [
        {"role": "assistant", "tool_calls": [call("0", "first"), call("1", "second")]},
        result("1", "y"),
        result("0", "x"),
        {"role": "assistant", "tool_calls": [call("1", "third"), call("0", "fourth")]},
        result("0", "w"),
        result("1", "z"),
    ]
    told = [m for m in chat(messages=turns).conversation() if m["role"] == "tool"]
    assert [(m["name"], m["content"]) for m in told] == [
        ("first", "x"),
        ("second", "y"),
        ("third", "z"),
        ("fourth", "w"),
    ]


def test_a_results_own_name_is_told_to_the_template() -> None:
    said = {"role": "assistant", "tool_calls": [call("1")]}
    told = chat(messages=[said, result("1", "x", name="g")]).conversation()
    assert told[1]["name"] == "g"


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm"},
        {"reasoning": "hm", "reasoning_content": "hm"},
        {
            "reasoning_details": [
                {"type": "reasoning.text", "text": "h", "signature": None, "index": 0},
                {"type": "reasoning.summary", "summary": "m", "format": "x"},
                {"type": "reasoning.encrypted", "data": "e"},
            ]
        },
        {"thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "s"}]},
    ],
)
def test_thoughts_are_read_under_each_servers_name(fields: dict[str, Any]) -> None:
    (message,) = chat(messages=[{"role": "assistant", "content": "ok", **fields}]).conversation()
    assert message == {"role": "assistant", "content": "ok", "reasoning_content": "hm"}


def test_thoughts_given_twice_with_other_words_are_refused() -> None:
    said = {"role": "assistant", "content": "x", "reasoning": "a", "reasoning_content": "b"}
    assert refusal(chat, messages=[said]).param == "messages[0].reasoning"


def test_fields_of_other_servers_in_messages_change_nothing() -> None:
    mark = {"cache_control": {"type": "ephemeral"}, "id": "m-1"}
    part = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
    messages = [
        {"role": "user", "content": [part], **mark},
        {
            "role": "assistant",
            "content": "ok",
            "annotations": [{"type": "url_citation"}],
            "provider_specific_fields": {"a": 1},
            "refusal": None,
            "audio": None,
            **mark,
        },
    ]
    plain = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ok"}]
    assert chat(messages=messages).conversation() == plain
    tool = {**TOOL, "cache_control": {"type": "ephemeral"}}
    assert chat(tools=[tool]).calls == chat(tools=[TOOL]).calls


def test_a_result_is_that_of_a_call_before_it() -> None:
    result = {"role": "tool", "content": "x", "tool_call_id": "nope"}
    with pytest.raises(BodyError) as caught:
        chat(messages=[*HI, result]).conversation()
    assert caught.value.param == "messages[1].tool_call_id"


FUNCTION: Any = {"name": "get_temp", "parameters": {"type": "object"}}
TOOL: Any = {"type": "function", "function": FUNCTION}


def named(name: str) -> Any:
    return {"type": "function", "function": {"name": name}}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {}}, "response_format.type"),
        ({"response_format": {"type": "json_schemaa"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "a b"}}},
            "response_format.json_schema.name",
        ),
        ({"response_format": {"type": "json_object", "schema": 3}}, "response_format.schema"),
        ({"response_format": {"type": "json_object", "name": "a"}}, "response_format.name"),
        ({"guided_choice": []}, "guided_choice"),
        ({"guided_regex": 1}, "guided_regex"),
        ({"guided_json": "{"}, "guided_json"),
        ({"guided_json": {}, "guided_regex": "a"}, "guided_regex"),
        ({"guided_regex": "a", "response_format": {"type": "json_object"}}, "guided_regex"),
        ({"structured_outputs": {}}, "structured_outputs"),
        ({"structured_outputs": {"regex": "a", "choice": ["a"]}}, "structured_outputs.choice"),
        (
            {"structured_outputs": {"whitespace_pattern": ""}},
            "structured_outputs.whitespace_pattern",
        ),
        ({"tools": {}}, "tools"),
        ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0].type"),
        ({"tools": [{"type": "function", "function": {"name": "a.b"}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "function", "function": {"name": "a\n"}}]}, "tools[0].function.name"),
        ({"tools": [TOOL, TOOL]}, "tools[1].function.name"),
        (
            {
                "tools": [
                    {"type": "function", "function": {"name": "a", "parameters": {"type": "dict"}}}
                ]
            },
            "tools[0].function.parameters.type",
        ),
        ({"tools": [TOOL], "tool_choice": "sometimes"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": named("nope")}, "tool_choice.function.name"),
        ({"tools": [], "tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": named("get_temp")}, "tool_choice"),
        (
            {
                "tools": [TOOL],
                "tool_choice": {
                    "type": "allowed_tools",
                    "allowed_tools": {"mode": "auto", "tools": [named("nope")]},
                },
            },
            "tool_choice.allowed_tools.tools[0].function.name",
        ),
    ],
)
def test_faulty_forms_and_tools_are_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(BodyError) as caught:
        request = chat(**fields)
        _ = request.form, request.calls
    assert caught.value.param == param


def test_the_forms_of_an_answer() -> None:
    schema = {"type": "object"}
    named_schema = {"type": "json_schema", "json_schema": {"name": "t", "schema": schema}}
    path = "response_format.json_schema.schema"
    assert chat(response_format=named_schema).form == Form("schema", schema, path)
    assert chat(response_format={"type": "text"}).form is None
    object_form = chat(response_format={"type": "json_object"}).form
    assert object_form == Form("object", None, "response_format")
    with_schema = chat(response_format={"type": "json_object", "schema": schema}).form
    assert with_schema == Form("schema", schema, "response_format.schema")
    unnamed = {"type": "json_schema", "json_schema": {"schema": schema}}
    assert chat(response_format=unnamed).form == Form("schema", schema, path)
    assert completion(guided_json='{"type":"object"}').form == Form("schema", schema, "guided_json")
    regex = completion(structured_outputs={"regex": "a+"}).form
    assert regex == Form("regex", "a+", "structured_outputs.regex")


def test_which_functions_may_be_called() -> None:
    other = {"type": "function", "function": {"name": "other"}}
    tools = [TOOL, other]

    def calls(**fields: Any) -> tuple[list[int], bool, bool, bool]:
        found = chat(tools=tools, **fields).calls
        assert found is not None
        return list(found.callable), found.must, found.several, found.named

    allowed = {"mode": "required", "tools": [named("other")]}
    assert calls() == ([0, 1], False, True, False)
    assert calls(parallel_tool_calls=False) == ([0, 1], False, False, False)
    assert calls(tool_choice="required") == ([0, 1], True, True, False)
    assert calls(tool_choice=named("other")) == ([1], True, False, True)
    choice = {"type": "allowed_tools", "allowed_tools": allowed}
    assert calls(tool_choice=choice) == ([1], True, True, False)
    assert chat(tools=tools, tool_choice="none").calls is None
    assert chat(tools=[], tool_choice="auto").calls is None
    assert chat(tool_choice="none").calls is None


def test_an_answer_of_ours_may_be_sent_back_with_its_empty_fields() -> None:
    empty = {"refusal": None, "tool_calls": None, "function_call": None, "audio": None}
    answer = {"role": "assistant", "content": "ok", "annotations": [], **empty}
    assert chat(messages=[*HI, answer]).conversation()[1] == {"role": "assistant", "content": "ok"}


def test_text_parts_are_joined_without_a_separator() -> None:
    parts = [{"type": "text", "text": "ab"}, {"type": "text", "text": "cd"}]
    (message,) = chat(messages=[{"role": "user", "content": parts}]).conversation()
    assert message == {"role": "user", "content": "abcd"}


def test_names_and_refusals_reach_the_template() -> None:
    messages = [
        {"role": "developer", "content": "brief", "name": "boss"},
        {"role": "assistant", "refusal": "no"},
    ]
    assert chat(messages=messages).conversation() == [
        {"role": "developer", "content": "brief", "name": "boss"},
        {"role": "assistant", "content": "no"},
    ]


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("a", [("prompt", "a")]),
        ("", [("prompt", "")]),
        (["a", "b"], [("prompt[0]", "a"), ("prompt[1]", "b")]),
        ([1, 2], [("prompt", [1, 2])]),
        ([[1, 2], [3]], [("prompt[0]", [1, 2]), ("prompt[1]", [3])]),
    ],
)
def test_the_four_forms_of_a_prompt(prompt: Any, expected: Any) -> None:
    assert completion(prompt=prompt).prompts() == expected


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": []}, "prompt"),
        ({"prompt": [[]]}, "prompt[0]"),
        ({"prompt": ["a", 1]}, "prompt[1]"),
        ({"prompt": [1, True]}, "prompt[1]"),
        ({"prompt": [1, -1]}, "prompt[1]"),
        ({"prompt": [[1, "a"]]}, "prompt[0][1]"),
        ({"prompt": {"a": 1}}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": ["a"] * 6, "n": 3}, "prompt"),
        ({"suffix": 7}, "suffix"),
        ({"suffix": "x", "prompt": [1, 2]}, "suffix"),
        ({"suffix": "x", "echo": True}, "echo"),
        ({"suffix": "x", "parse_special": True}, "parse_special"),
        ({"parse_special": 1}, "parse_special"),
        ({"parse_special": True, "echo": True, "logprobs": 0}, "logprobs"),
        ({"best_of": 1_000_000}, "best_of"),
        ({"best_of": 1, "n": 2}, "best_of"),
        ({"logprobs": 6}, "logprobs"),
        ({"logprobs": True}, "logprobs"),
        ({"best_of": 3, "n": 2, "stream": True}, "best_of"),
        ({"prompt": ["a", "b"], "best_of": 9}, "prompt"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -1, "echo": True}, "max_tokens"),
        ({"messages": HI}, "messages"),
    ],
)
def test_faulty_completions_are_named(fields: dict[str, Any], param: str) -> None:
    assert refusal(completion, **fields).param == param


def test_candidates_are_as_many_as_are_answered_or_as_best_of_says() -> None:
    assert completion(n=2).candidates == 2
    assert completion(n=2, best_of=2, stream=True).candidates == 2
    assert completion(n=2, best_of=5).candidates == 5
    assert completion(prompt=["a", "b"], best_of=8).candidates == 8


def test_a_prompt_may_be_echoed_without_a_completion() -> None:
    assert completion(max_tokens=0, echo=True, logprobs=1).max_tokens == 0


BEGUN: Any = [*HI, {"role": "assistant", "content": "The fruit is"}]


@pytest.mark.parametrize(
    ("fields", "continues", "opens"),
    [
        ({}, True, True),
        ({"continue_final_message": True, "add_generation_prompt": False}, True, False),
        ({"continue_final_message": True}, True, True),
        ({"continue_final_message": False}, False, True),
        ({"add_generation_prompt": True}, False, True),
        ({"continue_final_message": False, "add_generation_prompt": False}, False, False),
    ],
)
def test_whether_a_last_message_of_the_assistants_is_continued(
    fields: dict[str, Any], continues: bool, opens: bool
) -> None:
    request = chat(messages=BEGUN, **fields)
    assert (request.continues, request.opens) == (continues, opens)


def test_a_users_message_is_answered_and_not_continued() -> None:
    for fields in ({}, {"continue_final_message": False}, {"add_generation_prompt": True}):
        assert not chat(**fields).continues


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"continue_final_message": True}, "continue_final_message"),
        (
            {
                "messages": BEGUN,
                "continue_final_message": True,
                "add_generation_prompt": True,
            },
            "continue_final_message",
        ),
        (
            {"messages": [*HI, {"role": "assistant", "tool_calls": [call("1")]}]},
            "messages[1].tool_calls",
        ),
        ({"messages": BEGUN, "guided_regex": "a"}, "guided_regex"),
        ({"messages": BEGUN, "response_format": {"type": "json_object"}}, "response_format"),
    ],
)
def test_a_message_that_cannot_be_continued_is_refused(fields: dict[str, Any], param: str) -> None:
    assert refusal(chat, **fields).param == param


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
parameters = ["model", "messages", "prompt", "stop", "n", "logit_bias", "stream", "tools", "user"]
more = ["stream_options", "role", "content", "type", "text", "max_tokens", "seed", "metadata"]
names = st.sampled_from([*parameters, *more])
messages = st.lists(st.dictionaries(names, json_values | st.just("user"), max_size=4), max_size=3)


@given(st.dictionaries(names, json_values | messages))
def test_any_object_is_a_request_or_a_refusal(fields: dict[str, Any]) -> None:
    body = json.dumps(fields).encode()
    for parse in (parse_chat_request, parse_completion_request):
        try:
            request = parse(body, max_choices=4)
            if isinstance(request, ChatRequest):
                assert all("content" in message for message in request.conversation())
            else:
                assert request.prompts()
        except BodyError as error:
            assert error.message


NEEDED = {
    ChatRequest: ['"model": "m"', '"messages": [{"role": "user", "content": "hi"}]'],
    CompletionRequest: ['"model": "m"', '"prompt": ["\\ud83d\\ude00", "é"]'],
}
GOOD = [
    '"max_tokens": 5',
    '"temperature": 1',
    '"stop": ["a"]',
    '"metadata": {"a": "b"}',
    '"guided_json": {"a": [1.5, null]}',
]
ODD = [
    '"model": null',
    '"max_tokens": null',
    '"max_tokens": 0',
    '"temperature": "1"',
    '"stop": "\xff"',
    '"store": false',
    '"store": true',
    '"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "\xff"}]}]',
    '"messages": [{"role": "user", "content": [{"type": "image_url", "x": "\xff"}]}]',
    '"metadata": {"\xff": "b"}',
    '"maxtokens": 5',
    '"seed": 1,',
    '"seed": ' + "[" * 70,
]


@given(st.lists(st.sampled_from(GOOD)), st.lists(st.sampled_from(ODD), max_size=2), st.randoms())
@pytest.mark.parametrize("struct", [ChatRequest, CompletionRequest])
def test_in_one_go_is_as_field_by_field(
    struct: type[ChatRequest | CompletionRequest], good: list[str], odd: list[str], random: Random
) -> None:
    """Fields twice, nulls and bytes that are no UTF-8 among them."""
    fields = NEEDED[struct] + good + odd
    random.shuffle(fields)
    body = f"{{{', '.join(fields)}}}".encode("utf-8" if random.random() < 0.5 else "latin-1")
    reader = RequestReader(struct, CHAT if struct is ChatRequest else COMPLETIONS)
    assert outcome(lambda: reader.read(body)) == outcome(lambda: reader.read_fields(body))


def outcome(read: Callable[[], object]) -> object:
    try:
        return read()
    except BodyError as error:
        return error.message, error.param
