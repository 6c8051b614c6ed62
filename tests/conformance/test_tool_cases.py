"""Faults that users met in other servers where answers have a form or call functions, by their
ids. Everything behind the edge is real but the model's forward pass (`tests.edge.fakes`), whose
favourite tokens are drawn by number where a case wants any model."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pytest

from headrace.text.template import ChatTemplate
from headrace.text.tools.format import FORMATS
from headrace.text.tools.parser import CallParser
from tests.edge.fakes import EOS, MODEL, VOCAB, World, error_of, events, reasons, text_of
from tests.edge.test_tools import streamed

HI = [{"role": "user", "content": "Say ok."}]
BOTH = pytest.mark.parametrize("stream", [False, True])
SMALL = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["a", "note"],
    "additionalProperties": False,
}
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
NUMBERS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
EMPTY: Any = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


def form(schema: Any) -> Any:
    return {"type": "json_schema", "json_schema": {"name": "t", "strict": True, "schema": schema}}


def tool(name: str, parameters: Any) -> Any:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


GET_TEMP = tool("get_temp", CITY)
SUM_TWO = tool("sum_two", NUMBERS)
PICK = tool("pick", EMPTY)


def babbling(*favourites: int) -> Any:
    """A model that says anything, the likelier the more usual in JSON, and favourites of all."""

    def answer(history: list[int]) -> Any:
        logits = np.random.default_rng(history).normal(size=VOCAB).astype(np.float32)
        logits[list(b'"}1 ')] += 2.0
        logits[list(favourites)] += 50.0
        return logits

    return answer


def small(text: str) -> bool:
    found = json.loads(text)
    return list(found) == ["a", "note"] and type(found["a"]) is int and type(found["note"]) is str


@pytest.mark.parametrize(
    "pattern", ["^(ab$", "^" + "(" * 20_000 + "a" + ")" * 20_000 + "$"], ids=["open", "deep"]
)
async def test_so_02_and_18_a_pattern_that_does_not_compile(world: World, pattern: str) -> None:
    schema = {"type": "object", "properties": {"k": {"type": "string", "pattern": pattern}}}
    started = time.perf_counter()
    error = error_of(await world.chat(response_format=form(schema)), 400)
    assert time.perf_counter() - started < 20  # and never without end
    assert error["param"] == "response_format.json_schema.schema.properties.k.pattern"
    assert not world.books.opened
    assert (await world.chat(max_tokens=2)).status_code == 200


async def test_so_05_a_pattern_within_the_items_of_a_tools_parameters(world: World) -> None:
    ids = {"type": "array", "items": {"type": "string", "pattern": r"^(\d+|box:[A-Za-z0-9_-]+)$"}}
    parameters = {
        "type": "object",
        "properties": {"ids": {**ids, "minItems": 1, "maxItems": 3}},
        "required": ["ids"],
        "additionalProperties": False,
    }
    call = '<tool_call>\n{"name": "drop", "arguments": {"ids": ["box:a_b-9", "7"]}}\n</tool_call>'
    world.say(call)
    asked: Any = {"tools": [tool("drop", parameters)], "temperature": 0, "max_tokens": 200}
    body = (await world.chat(tool_choice="auto", **asked)).json()
    (called,) = body["choices"][0]["message"]["tool_calls"]
    assert called["function"]["arguments"] == '{"ids": ["box:a_b-9", "7"]}'


@pytest.mark.parametrize(
    "ref", ["other.json#/$defs/v", "/$defs/V", "https://example.com/x.json", "#anchor"]
)
async def test_so_09_a_reference_to_elsewhere_is_refused(world: World, ref: str) -> None:
    schema = {"type": "object", "properties": {"v": {"$ref": ref}}, "required": ["v"]}
    error = error_of(await world.chat(response_format=form(schema)), 400)
    assert error["param"].startswith("response_format.json_schema.schema.properties.v")


async def test_so_15_a_schema_without_documents_is_refused(world: World) -> None:
    both = {"r": {"type": "number"}, "w": {"type": "number"}}
    schema = {
        "type": "object",
        "properties": both,
        "required": ["r", "w"],
        "oneOf": [{"required": ["r"]}, {"required": ["w"]}],
    }
    assert error_of(await world.chat(response_format=form(schema)), 400)["param"]


async def test_so_18_a_grammar_that_nests_deeply(world: World) -> None:
    grammar = "root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000
    error = error_of(await world.complete(guided_grammar=grammar), 400)
    assert error["param"] == "guided_grammar"
    assert (await world.chat(max_tokens=2)).status_code == 200


async def test_so_21_no_end_before_the_document_is_complete(world: World) -> None:
    world.supervisor.model.answer = babbling()
    body = (
        await world.chat(
            response_format=form(SMALL),
            max_tokens=400,
            logit_bias={str(EOS): 100, str(ord("z")): 100},
            stop_token_ids=[ord("z")],
        )
    ).json()
    assert body["choices"][0]["finish_reason"] == "stop"
    assert small(text_of(body))


async def test_so_22_white_space_has_an_end(world: World) -> None:
    world.supervisor.model.answer = babbling(*b" \n\t")
    body = (await world.chat(response_format=form(SMALL), temperature=0, max_tokens=300)).json()
    text = text_of(body)
    assert text.startswith('{"a":')
    assert "\n" not in text
    assert text.partition('"note":')[0].count(" ") == 0


@BOTH
async def test_so_23_the_form_holds_on_every_way_through(world: World, stream: bool) -> None:
    """The second request finds its prompt in the cache, and prompts are cut into chunks."""
    world.supervisor.model.answer = babbling()
    messages = [{"role": "user", "content": "Say ok. " * 12}]
    for _ in range(2):
        asked: Any = {"messages": messages, "response_format": form(SMALL), "n": 2}
        response = await world.chat(stream=stream, max_tokens=350, seed=3, **asked)
        chunks = events(response) if stream else []
        for index in range(2):
            text = streamed(chunks, index)[0] if stream else text_of(response.json(), index)
            assert small(text or "")


async def test_so_24_each_choice_has_a_document_of_its_own(world: World) -> None:
    world.supervisor.model.answer = babbling()
    asked: Any = {"response_format": form(SMALL), "n": 3, "temperature": 1, "max_tokens": 400}
    body = (await world.chat(**asked)).json()
    texts = [text_of(body, index) for index in range(3)]
    assert all(map(small, texts))
    assert len(set(texts)) == 3


@pytest.mark.parametrize(
    ("response_format", "param"),
    [
        ({"type": "json_schemaa"}, "response_format.type"),
        ("json", "response_format"),
        ({}, "response_format.type"),
        ({"type": "json_schema"}, "response_format.json_schema"),
    ],
)
async def test_so_27_a_faulty_response_format_is_named(
    world: World, response_format: Any, param: str
) -> None:
    assert error_of(await world.chat(response_format=response_format), 400)["param"] == param


async def test_tc_01_deltas_of_calls_are_as_openai_sends_them(world: World) -> None:
    calls = [
        f'<tool_call>\n{{"name": "sum_two", "arguments": {{"a": {a}, "b": {a + 1}}}}}\n</tool_call>'
        for a in (1, 3)
    ]
    world.say("\n".join(calls))
    asked: Any = {"tools": [SUM_TWO], "tool_choice": "required", "temperature": 0}
    found = streamed(events(await world.chat(stream=True, max_tokens=200, **asked)))
    expected = [("sum_two", '{"a": 1, "b": 2}'), ("sum_two", '{"a": 3, "b": 4}')]
    assert found == (None, expected, "tool_calls")


@BOTH
async def test_tc_04_a_named_function(world: World, stream: bool) -> None:
    world.supervisor.model.answer = babbling()
    choice = {"type": "function", "function": {"name": "get_temp"}}
    asked: Any = {"tools": [GET_TEMP], "tool_choice": choice, "max_tokens": 300}
    response = await world.chat(stream=stream, **asked)
    if stream:
        _, [(name, arguments)], reason = streamed(events(response))
    else:
        (answer,) = response.json()["choices"]
        (call,) = answer["message"]["tool_calls"]
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        reason = answer["finish_reason"]
    assert (name, reason) == ("get_temp", "stop")
    assert list(json.loads(arguments)) == ["city"]


async def test_tc_07_characters_beyond_ascii_arrive_once(world: World) -> None:
    world.say(
        "\n".join(
            f'<tool_call>\n{{"name": "get_temp", "arguments": {{"city": "{city}"}}}}\n</tool_call>'
            for city in ("Malmö", "东京")
        )
    )
    asked: Any = {"tools": [GET_TEMP], "tool_choice": "required", "temperature": 0}
    _, calls, _ = streamed(events(await world.chat(stream=True, max_tokens=200, **asked)))
    assert calls == [("get_temp", '{"city": "Malmö"}'), ("get_temp", '{"city": "东京"}')]
    body = (await world.chat(max_tokens=200, **asked)).json()
    whole = [call["function"] for call in body["choices"][0]["message"]["tool_calls"]]
    assert [(call["name"], call["arguments"]) for call in whole] == calls


def test_tc_08_how_the_text_is_cut_makes_no_difference() -> None:
    arguments = '{"t":"a \\"quoted\\" }} </tool_call> é\\n"}'
    text = f'<tool_call>{{"name":"note","arguments":{arguments}}}</tool_call>'
    words = [text[i : i + 7] for i in range(0, len(text), 7)]
    for pieces in (list(text), words, [text]):
        parser = CallParser(FORMATS["hermes"], ["note"], lambda: "id")
        parsed = [*map(parser.feed, pieces), parser.finish()]
        assert "".join(part.content for part in parsed) == ""
        deltas = [call for part in parsed for call in part.calls]
        assert [call.name for call in deltas if call.name] == ["note"]
        assert "".join(call.arguments for call in deltas) == arguments


async def test_tc_09_none_means_no_calls(world: World) -> None:
    assert (await world.chat(tool_choice="none", max_tokens=4)).status_code == 200
    call = '<tool_call>\n{"name": "pick", "arguments": {}}\n</tool_call>'
    world.say(call)
    body = (await world.chat(tools=[PICK], tool_choice="none", max_tokens=200)).json()
    assert "tool_calls" not in body["choices"][0]["message"]
    assert text_of(body) == call


@pytest.mark.parametrize(
    ("tools", "choice", "status"),
    [
        ([], None, 200),
        ([], "auto", 200),
        ([], "required", 400),
        ([GET_TEMP], {"type": "function", "function": {"name": "nope"}}, 400),
        (None, "required", 400),
    ],
)
async def test_tc_10_tools_and_choices(world: World, tools: Any, choice: Any, status: int) -> None:
    response = await world.chat(tools=tools, tool_choice=choice, max_tokens=2)
    assert response.status_code == status
    if status == 400:
        assert error_of(response, 400)["param"].startswith("tool_choice")
    else:
        assert (
            "tool" not in bytes(t for t in world.supervisor.model.prompts[-1] if t < 256).decode()
        )


async def test_tc_11_content_beside_calls_may_be_missing(world: World) -> None:
    call = {"id": "call_a1", "type": "function", "function": {"name": "pick", "arguments": "{}"}}
    prompts = []
    for content in ({"content": None}, {}, {"content": ""}):
        said = {"role": "assistant", "tool_calls": [call], **content}
        result = {"role": "tool", "tool_call_id": "call_a1", "content": "7"}
        asked: Any = {"messages": [*HI, said, result], "tools": [PICK], "max_tokens": 8}
        assert (await world.chat(**asked)).status_code == 200
        prompts.append(world.supervisor.model.prompts[-1])
    assert prompts[0] == prompts[1] == prompts[2]
    text = bytes(token for token in prompts[0] if token < 256).decode()
    assert "None" not in text
    assert "null" not in text


async def test_tc_12_empty_and_listed_contents(world: World) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "pick", "arguments": "{}"}}
    messages = [
        *HI,
        {"role": "assistant", "content": [], "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "7"}]},
    ]
    response = await world.chat(messages=messages, tools=[PICK], max_tokens=8)
    assert response.status_code == 200


async def test_tc_13_arguments_are_objects_for_the_template(world: World) -> None:
    template = (
        "{% for m in messages %}{% if m.tool_calls %}{% for c in m.tool_calls %}"
        "[{{ c.function.name }}{% for k, v in c.function.arguments|items %} {{ k }}={{ v }}"
        "{% endfor %}]{% endfor %}{% else %}<{{ m.role }}>{{ m.content }}{% endif %}{% endfor %}"
    )
    world.text.template = ChatTemplate(template, bos_token="", eos_token="")
    function = {"name": "look", "arguments": '{"city": "Paris", "n": 2}'}
    called = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "function": function}],
    }
    done = {"role": "tool", "tool_call_id": "c1", "content": "x"}
    await world.chat(messages=[{"role": "user", "content": "hi"}, called, done], max_tokens=2)
    prompt = bytes(token for token in world.supervisor.model.prompts[-1] if token < 256)
    assert prompt.decode() == "<user>hi[look city=Paris n=2]<tool>x"
    error = error_of(await world.chat(messages=[*HI, called]), 400)
    assert error["param"] == "messages[1].tool_calls"
    assert "have no results" in error["message"]


async def test_tc_14_one_finish_and_one_count_of_calls_for_each_choice(world: World) -> None:
    world.supervisor.model.answer = babbling()
    asked: Any = {"tools": [GET_TEMP], "tool_choice": "required", "n": 2, "temperature": 1}
    chunks = events(await world.chat(stream=True, max_tokens=80, **asked))
    assert set(reasons(chunks)) == {0, 1}
    for index in range(2):
        _, calls, _ = streamed(chunks, index)
        assert calls[0][0] == "get_temp"


@pytest.mark.parametrize(
    ("declared", "param"),
    [
        (tool("spotify.play", EMPTY), "tools[0].function.name"),
        (tool("play", {"type": "dict", "properties": {}}), "tools[0].function.parameters.type"),
    ],
)
async def test_tc_16_faulty_tools_are_named(world: World, declared: Any, param: str) -> None:
    error = error_of(await world.chat(model=MODEL, tools=[declared]), 400)
    assert error["param"] == param
