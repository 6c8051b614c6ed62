"""Function calls and forms of answers through the whole edge, with a model that says what a test
wants as far as the grammar lets it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from headrace.text.reasoning import Thinking
from headrace.text.tools.format import FORMATS
from tests.edge.fakes import KEY, MARK, MODEL, World, error_of, events, joined, reasons, text_of

BOTH = pytest.mark.parametrize("stream", [False, True])
HI: Any = [{"role": "user", "content": "Say ok."}]
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
GET_TEMP: Any = {"type": "function", "function": {"name": "get_temp", "parameters": CITY}}
PICK: Any = {"type": "function", "function": {"name": "pick", "description": "any number"}}
TOOLS = [GET_TEMP, PICK]
NAMED = {"type": "function", "function": {"name": "get_temp"}}
CALL = '<tool_call>\n{"name": "get_temp", "arguments": {"city": "Malmö"}}\n</tool_call>'
OTHER = '<tool_call>\n{"name": "pick", "arguments": {}}\n</tool_call>'
INTEGER = {
    "type": "object",
    "properties": {"k": {"type": "integer"}},
    "required": ["k"],
    "additionalProperties": False,
}
FORM: Any = {"type": "json_schema", "json_schema": {"name": "t", "schema": INTEGER}}
Called = list[tuple[str, str]]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World() as running:
        yield running
        await running.idle()


def streamed(chunks: list[Any], index: int = 0) -> tuple[str | None, Called, str]:
    """Content, calls and finish_reason of one choice of a stream, whose deltas are as OpenAI
    sends them."""
    content: str | None = None
    calls: list[list[str]] = []
    for choice in [c for chunk in chunks for c in chunk["choices"] if c["index"] == index]:
        delta = choice["delta"]
        if delta.get("content") is not None:
            content = (content or "") + delta["content"]
        for call in delta.get("tool_calls", []):
            if call["index"] == len(calls):
                assert set(call) == {"index", "id", "type", "function"}
                assert call["id"].startswith("call_")
                assert call["type"] == "function"
                calls.append([call["function"]["name"], ""])
            else:
                assert call["index"] == len(calls) - 1
                assert set(call) == {"index", "function"}
                assert set(call["function"]) == {"arguments"}
            calls[-1][1] += call["function"]["arguments"]
    return content, [(name, arguments) for name, arguments in calls], reasons(chunks)[index]


async def ask(world: World, stream: bool, **fields: Any) -> tuple[str | None, Called, str]:
    """Content, calls and finish_reason of a request with one choice."""
    fields = {"tools": TOOLS, "temperature": 0, "max_tokens": 300, **fields}
    response = await world.chat(stream=stream, **fields)
    if stream:
        return streamed(events(response))
    assert response.status_code == 200, response.text
    (choice,) = response.json()["choices"]
    message = choice["message"]
    calls = message.get("tool_calls", [])
    assert all(call["type"] == "function" for call in calls)
    assert len({call["id"] for call in calls}) == len(calls)
    called = [(call["function"]["name"], call["function"]["arguments"]) for call in calls]
    return message["content"], called, choice["finish_reason"]


@BOTH
async def test_a_call_of_the_models_own(world: World, stream: bool) -> None:
    world.say(f"Let me see.\n{CALL}")
    found = await ask(world, stream)
    assert found == ("Let me see.", [("get_temp", '{"city": "Malmö"}')], "tool_calls")
    assert world.books.last()["ending"] == "stop"


@BOTH
async def test_several_calls(world: World, stream: bool) -> None:
    world.say(f"{CALL}\n{OTHER}")
    for choice in ("auto", "required"):
        found = await ask(world, stream, tool_choice=choice)
        expected = [("get_temp", '{"city": "Malmö"}'), ("pick", "{}")]
        assert found == (None, expected, "tool_calls")


@BOTH
@pytest.mark.parametrize("choice", ["auto", "required"])
async def test_one_at_a_time_if_asked_for(world: World, stream: bool, choice: str) -> None:
    world.say(f"{CALL}\n{OTHER}")
    found = await ask(world, stream, tool_choice=choice, parallel_tool_calls=False)
    assert found == (None, [("get_temp", '{"city": "Malmö"}')], "tool_calls")


@BOTH
async def test_no_call_is_an_answer_too(world: World, stream: bool) -> None:
    world.say("ok <b>{}</b>")
    assert await ask(world, stream) == ("ok <b>{}</b>", [], "stop")


@BOTH
async def test_a_call_once_begun_follows_its_schema(world: World, stream: bool) -> None:
    world.say('<tool_call>\n{"name": "get_temp", "arguments": {"town": 3}}\n</tool_call>')
    _, calls, _ = await ask(world, stream)
    assert calls[0][0] == "get_temp"
    assert calls[0][1].startswith('{"city": "')


@BOTH
async def test_a_call_has_no_arguments_that_its_function_does_not_declare(
    world: World, stream: bool
) -> None:
    """Not even where the schema leaves them open, as LangChain does."""
    loose = {"type": "object", "properties": {}}
    tools = [{"type": "function", "function": {"name": "pick", "parameters": loose}}]
    world.say('<tool_call>\n{"name": "pick", "arguments": {"type": 1}}\n</tool_call>')
    _, calls, _ = await ask(world, stream, tools=tools)
    assert calls == [("pick", "{}")]


@BOTH
async def test_a_named_function_is_called_once_and_that_is_a_stop(
    world: World, stream: bool
) -> None:
    world.say(f"{CALL}\n{CALL}")
    found = await ask(world, stream, tool_choice=NAMED)
    assert found == (None, [("get_temp", '{"city": "Malmö"}')], "stop")


@BOTH
async def test_only_allowed_functions_are_called(world: World, stream: bool) -> None:
    world.say(CALL.replace("get_temp", "pick"))
    allowed = {"mode": "required", "tools": [NAMED]}
    choice = {"type": "allowed_tools", "allowed_tools": allowed}
    _, calls, _ = await ask(world, stream, tool_choice=choice, parallel_tool_calls=False)
    assert [name for name, _ in calls] == ["get_temp"]


@BOTH
async def test_a_limit_within_a_call_delivers_it_as_it_is(world: World, stream: bool) -> None:
    world.say(CALL)
    limit = len(CALL[: CALL.index("Malmö") + 3])
    found = await ask(world, stream, max_tokens=limit)
    assert found == (None, [("get_temp", '{"city": "Mal')], "length")


@BOTH
@pytest.mark.parametrize("limit", [5, 20])
async def test_markup_of_a_call_that_must_be_is_no_content(
    world: World, stream: bool, limit: int
) -> None:
    world.say(CALL)
    content, calls, reason = await ask(world, stream, tool_choice="required", max_tokens=limit)
    assert not content
    assert (calls, reason) == ([], "length")


@BOTH
async def test_a_stop_within_a_call_ends_it(world: World, stream: bool) -> None:
    world.say(CALL)
    found = await ask(world, stream, stop=["lm"])
    assert found == (None, [("get_temp", '{"city": "Ma')], "stop")


@BOTH
async def test_calls_behind_thoughts(world: World, stream: bool) -> None:
    world.text.thoughts = Thinking("<think>", "</think>")
    world.say(f"<think>a <tool_call> b</think>\n\n{CALL}")
    for choice in ("auto", "required"):
        found = await ask(world, stream, tool_choice=choice, parallel_tool_calls=False)
        assert found == (None, [("get_temp", '{"city": "Malmö"}')], "tool_calls")


@BOTH
async def test_a_marker_that_is_a_control_token(world: World, stream: bool) -> None:
    world.text.tool_format, world.text.marker = FORMATS["mistral"], "[TOOL_CALLS]"
    body = '[{"name": "get_temp", "arguments": {"city": "Oslo"}}]'
    world.supervisor.model.script = [*b"Hm ", MARK, *body.encode(), 256]
    found = await ask(world, stream)
    assert found == ("Hm", [("get_temp", '{"city": "Oslo"}')], "tool_calls")
    del world.supervisor.model.script[:3]
    found = await ask(world, stream, tool_choice="required")
    assert found == (None, [("get_temp", '{"city": "Oslo"}')], "tool_calls")


async def test_a_template_for_one_call_at_a_time(world: World) -> None:
    world.text.several_calls = False
    world.say(f"{CALL}\n{OTHER}")
    _, calls, _ = await ask(world, False)
    assert len(calls) == 1


async def test_every_choice_numbers_its_own_calls(world: World) -> None:
    world.say(f"{CALL}\n{OTHER}")
    response = await world.chat(tools=TOOLS, stream=True, n=2, temperature=0, max_tokens=300)
    chunks = events(response)
    for index in range(2):
        _, calls, reason = streamed(chunks, index)
        assert ([name for name, _ in calls], reason) == (["get_temp", "pick"], "tool_calls")


@BOTH
async def test_logprobs_list_the_tokens_of_calls_too(world: World, stream: bool) -> None:
    world.say(f"Hm {CALL}")
    response = await world.chat(
        tools=TOOLS, stream=stream, logprobs=True, temperature=0, max_tokens=300
    )
    chunks = events(response) if stream else [response.json()]
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    content = [entry for c in choices if c["logprobs"] for entry in c["logprobs"]["content"]]
    said = b"".join(bytes(entry["bytes"]) for entry in content)
    assert said == f"Hm {CALL}".encode()


def prompt_of(world: World) -> str:
    return bytes(token for token in world.supervisor.model.prompts[-1] if token < 256).decode()


async def test_the_template_sees_tools_calls_and_results(world: World) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "pick", "arguments": '{"n":1}'}}
    messages = [
        *HI,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "7"}]},
    ]
    await ask(world, False, messages=messages)
    assert prompt_of(world) == (
        '<user>Say ok.</><assistant>[pick {"n": 1}]</><tool>7</><tool get_temp><tool pick>'
    )
    await ask(world, False, tool_choice="none")
    assert "<tool" not in prompt_of(world)
    await ask(world, False, tools=[])
    assert "<tool" not in prompt_of(world)


async def test_the_openai_client_reads_and_sends_calls_back(world: World) -> None:
    world.say(f"{CALL}\n{OTHER}")
    async with world.listening() as url:
        client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)
        # Some versions of the client stream no calls of functions that aren't strict.
        tools = [{**tool, "function": {**tool["function"], "strict": True}} for tool in TOOLS]
        asked: Any = {"model": MODEL, "messages": HI, "tools": tools, "temperature": 0}
        answer = await client.chat.completions.create(**asked)
        async with client.chat.completions.stream(**asked) as stream:
            final = await stream.get_final_completion()
        for message in (answer.choices[0].message, final.choices[0].message):
            assert message.content is None
            assert message.tool_calls is not None
            names = [call.function.name for call in message.tool_calls]  # type: ignore[union-attr]
            assert names == ["get_temp", "pick"]
            results = [
                {"role": "tool", "tool_call_id": call.id, "content": "7"}
                for call in message.tool_calls
            ]
            again = {**asked, "messages": [*HI, message, *results]}
            assert (await client.chat.completions.create(**again)).choices
        await client.close()


@pytest.mark.parametrize(
    ("tool", "param"),
    [
        (
            {"type": "object", "properties": {"k": {"type": "string", "pattern": "^(ab$"}}},
            "tools[1].function.parameters.properties.k.pattern",
        ),
        (
            {"type": "object", "properties": {"k": {"$ref": "other.json"}}},
            "tools[1].function.parameters.properties.k",
        ),
    ],
)
async def test_a_schema_of_a_tool_that_cant_be_enforced(
    world: World, tool: Any, param: str
) -> None:
    tools = [GET_TEMP, {"type": "function", "function": {"name": "f", "parameters": tool}}]
    error = error_of(await world.chat(tools=tools), 400)
    assert error["param"].startswith(param)
    assert not world.books.opened


# Forms of answers.


@BOTH
async def test_a_document_follows_its_schema(world: World, stream: bool) -> None:
    world.say('{"k":12}')
    fields = {"tools": None, "response_format": FORM}
    assert await ask(world, stream, **fields) == ('{"k":12}', [], "stop")
    world.say("certainly")
    content, _, _ = await ask(world, stream, max_tokens=5, **fields)
    assert content is not None
    assert content.startswith('{"k":')


@BOTH
async def test_a_document_behind_thoughts(world: World, stream: bool) -> None:
    world.text.thoughts = Thinking("<think>", "</think>")
    world.say('<think>{"k":</think>\n\n{"k":12}')
    fields = {"tools": None, "response_format": FORM}
    assert await ask(world, stream, **fields) == ('{"k":12}', [], "stop")


@BOTH
async def test_calls_or_a_document(world: World, stream: bool) -> None:
    world.say('{"k":12}')
    assert await ask(world, stream, response_format=FORM) == ('{"k":12}', [], "stop")
    world.say(CALL)
    _, calls, reason = await ask(world, stream, response_format=FORM)
    assert (calls, reason) == ([("get_temp", '{"city": "Malmö"}')], "tool_calls")


async def test_calls_that_look_like_documents_need_a_choice(world: World) -> None:
    world.text.tool_format = FORMATS["gemma"]
    error = error_of(await world.chat(tools=TOOLS, response_format=FORM), 400)
    assert error["param"] == "response_format.json_schema.schema"
    fields = {"response_format": FORM, "tool_choice": "required", "max_tokens": 5}
    assert (await world.chat(tools=TOOLS, **fields)).status_code == 200


async def test_a_tool_by_an_older_draft_with_annotations_and_a_huge_bound(world: World) -> None:
    parameters = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "strict": True,
        "properties": {
            "content": {"type": "string", "maxLength": 524_288, "example": "x"},
            "mode": {"type": "string", "nullable": True, "xml": {"name": "m"}},
        },
    }
    tool = {"type": "function", "function": {"name": "write", "parameters": parameters}}
    world.say('<tool_call>\n{"name": "write", "arguments": {"content": "a"}}\n</tool_call>')
    answer = (await world.chat(tools=[tool], tool_choice="required", temperature=0)).json()
    (call,) = answer["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"content": "a"}


FORMS: list[tuple[dict[str, Any], str, str]] = [
    ({"guided_json": INTEGER}, '{"k":1}', "guided_json"),
    ({"guided_json": json.dumps(INTEGER)}, '{"k":1}', "guided_json"),
    ({"guided_regex": "[a-c]{3}"}, "abc", "guided_regex"),
    ({"guided_choice": ["yes", "no"]}, "no", "guided_choice"),
    ({"guided_grammar": 'start: "a" "b"'}, "ab", "guided_grammar"),
    ({"guided_grammar": 'root ::= "a" "b"'}, "ab", "guided_grammar"),
    ({"structured_outputs": {"json_object": True}}, '{"k":1}', "structured_outputs.json_object"),
    ({"structured_outputs": {"regex": "[a-c]{3}"}}, "abc", "structured_outputs.regex"),
]


@pytest.mark.parametrize(("form", "said", "param"), FORMS, ids=lambda value: str(value)[:30])
async def test_forms_under_vllms_names(
    world: World, form: dict[str, Any], said: str, param: str
) -> None:
    world.say(said)
    assert text_of((await world.complete(temperature=0, max_tokens=30, **form)).json()) == said
    chunks = events(await world.chat(temperature=0, stream=True, **form))
    assert (joined(chunks), reasons(chunks)) == (said, {0: "stop"})
    other = {"guided_choice": ["a"]} if "guided_choice" not in form else {"guided_regex": "a"}
    assert error_of(await world.complete(**form, **other), 400)["param"] in {param, *other}


@pytest.mark.parametrize(
    ("form", "param"),
    [
        ({"guided_regex": "(a"}, "guided_regex"),
        ({"guided_grammar": "start: ("}, "guided_grammar"),
        ({"guided_grammar": "root ::= ("}, "guided_grammar"),
        ({"guided_json": {"type": "strin"}}, "guided_json.type"),
        ({"structured_outputs": {"json": {"$ref": "#/x"}}}, "structured_outputs.json"),
    ],
)
async def test_forms_that_cant_be_followed_are_refused(
    world: World, form: dict[str, Any], param: str
) -> None:
    for ask_for in (world.chat, world.complete):
        assert error_of(await ask_for(**form), 400)["param"].startswith(param)
    assert not world.books.opened


async def test_logprobs_of_a_complete_document(world: World) -> None:
    """Nothing stands behind its last token, which is text."""
    world.say('{"k":12}')
    body = (await world.chat(response_format=FORM, temperature=0, logprobs=True)).json()
    tokens = [entry["token"] for entry in body["choices"][0]["logprobs"]["content"]]
    assert "".join(tokens) == '{"k":12}'
