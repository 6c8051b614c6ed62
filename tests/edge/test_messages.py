"""Anthropic's dialect through the whole edge."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import httpx
import pytest

from headrace.api.anthropic.errors import error_body
from headrace.api.anthropic.version import VERSIONS
from headrace.api.openai.errors import ContextLengthExceeded
from headrace.edge.wire import ANTHROPIC
from headrace.text.reasoning import Thinking
from headrace.text.template import ChatTemplate
from tests import agents
from tests.api.anthropic.test_answers import parsed, put_together
from tests.edge.fakes import AUTH, CONTEXT, KEY, MODEL, World, until

BOTH = pytest.mark.parametrize("stream", [False, True])
HI: Any = [{"role": "user", "content": "Say ok."}]
PROMPT = len("<user>Say ok.</>") + 2
PICK: Any = {"name": "pick", "input_schema": {"type": "object", "properties": {}}}
NAMED: Any = {
    "name": "get_temp",
    "description": "of a city",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
TOOLS = [NAMED, PICK]
CALL = '<tool_call>\n{"name": "get_temp", "arguments": {"city": "Malmö"}}\n</tool_call>'
OTHER = '<tool_call>\n{"name": "pick", "arguments": {}}\n</tool_call>'
GROUPS = ("requests", "tokens", "input-tokens", "output-tokens")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World() as running:
        running.say("ok then")
        yield running
        await running.idle()


def refused(response: httpx.Response, status: int, type: str) -> str:
    """The message of a refusal, which must be in Anthropic's shape."""
    assert response.status_code == status, response.text
    body = response.json()
    assert set(body) == {"type", "error", "request_id"}
    assert (body["type"], body["error"]["type"]) == ("error", type)
    assert body["request_id"] == response.headers["request-id"]
    message: str = body["error"]["message"]
    return message


async def ask(world: World, stream: bool, **fields: Any) -> tuple[list[Any], Any, Any]:
    """Blocks, stop_reason with stop_sequence, and usage; the ids of calls left out."""
    response = await world.message(stream=stream, **fields)
    assert response.status_code == 200, response.text
    assert response.headers["request-id"] == response.headers["x-request-id"]
    if stream:
        events = parsed(response.content)
        assert [events[0]["type"], events[-1]["type"]] == ["message_start", "message_stop"]
        blocks, told = put_together(events), events[-2]["delta"]
        usage = events[-2]["usage"]
    else:
        told = response.json()
        blocks, usage = told["content"], told["usage"]
    for block in blocks:
        if block["type"] == "tool_use":
            assert block.pop("id").startswith("toolu_")
    return blocks, (told["stop_reason"], told["stop_sequence"]), usage


def use(name: str, **input: str) -> dict[str, Any]:
    return {"type": "tool_use", "name": name, "input": input}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


@BOTH
async def test_a_message_and_its_charge(world: World, stream: bool) -> None:
    blocks, stopped, usage = await ask(world, stream)
    assert (blocks, stopped) == ([text("ok then")], ("end_turn", None))
    assert (usage["input_tokens"], usage["output_tokens"]) == (PROMPT, len("ok then") + 1)
    charge = next(iter(world.books.opened.values()))
    assert (charge.endpoint, charge.stream) == ("/v1/messages", stream)
    assert world.books.last()["prompt_tokens"] == PROMPT


@BOTH
async def test_limits_and_stops_end_it(world: World, stream: bool) -> None:
    assert (await ask(world, stream, max_tokens=2))[1] == ("max_tokens", None)
    blocks, stopped, _ = await ask(world, stream, stop_sequences=["x", " the"])
    assert (blocks, stopped) == ([text("ok")], ("stop_sequence", " the"))


@BOTH
async def test_what_was_cached_is_told_apart(world: World, stream: bool) -> None:
    said = [{"role": "user", "content": "word " * 20}]
    first = (await ask(world, stream, messages=said))[2]
    again = (await ask(world, stream, messages=said))[2]
    assert first["cache_read_input_tokens"] == 0
    assert again["cache_read_input_tokens"] == 96
    assert again["cache_read_input_tokens"] + again["input_tokens"] == first["input_tokens"]
    told = await world.http.post(
        "/v1/messages/count_tokens", json={"model": MODEL, "messages": said}
    )
    assert told.json() == {"input_tokens": first["input_tokens"]}


@BOTH
async def test_tools_are_used(world: World, stream: bool) -> None:
    world.say(f"Let me see.\n{CALL}\n{OTHER}")
    blocks, stopped, _ = await ask(world, stream, tools=TOOLS, temperature=0, max_tokens=300)
    both = [use("get_temp", city="Malmö"), use("pick")]
    assert (blocks, stopped) == ([text("Let me see."), *both], ("tool_use", None))
    world.say(f"{CALL}\n{OTHER}")
    asked: Any = {"tools": TOOLS, "temperature": 0, "max_tokens": 300}
    asked["tool_choice"] = {"type": "any"}
    assert await ask(world, stream, **asked) == (both, ("tool_use", None), *([usage_of(world)]))
    asked["tool_choice"] = {"type": "any", "disable_parallel_tool_use": True}
    assert (await ask(world, stream, **asked))[0] == both[:1]
    asked["tool_choice"] = {"type": "tool", "name": "pick", "disable_parallel_tool_use": True}
    world.say(OTHER)
    assert (await ask(world, stream, **asked))[:2] == (both[1:], ("tool_use", None))
    asked["tool_choice"] = {"type": "none"}
    assert (await ask(world, stream, **asked))[0] == [text(OTHER)]


def usage_of(world: World) -> dict[str, Any]:
    """As the books have it."""
    counts = world.books.last()
    return {
        "input_tokens": counts["prompt_tokens"] - counts["cached_tokens"],
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": counts["cached_tokens"],
        "output_tokens": counts["completion_tokens"],
        "output_tokens_details": {"thinking_tokens": counts["reasoning_tokens"]},
        "service_tier": "standard",
    }


async def test_a_call_that_was_cut_off_has_no_input(world: World) -> None:
    world.say(CALL)
    limit = len(CALL[: CALL.index("Malmö") + 3])
    blocks, stopped, _ = await ask(world, False, tools=TOOLS, temperature=0, max_tokens=limit)
    assert (blocks, stopped) == ([use("get_temp")], ("max_tokens", None))


async def test_the_template_sees_tools_calls_and_results(world: World) -> None:
    called = {"type": "tool_use", "id": "toolu_1", "name": "pick", "input": {"n": 1}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [text("7")]}
    said = [
        *HI,
        {"role": "assistant", "content": [called]},
        {"role": "user", "content": [result, text("And?")]},
    ]
    await ask(world, False, messages=said, tools=TOOLS, system="s")
    prompt = bytes(token for token in world.supervisor.model.prompts[-1] if token < 256).decode()
    assert prompt == (
        '<system>s</><user>Say ok.</><assistant>[pick {"n": 1}]</><tool>7</><user>And?</>'
        "<tool get_temp><tool pick>"
    )


async def test_a_schema_that_cannot_be_enforced_is_refused_by_its_path(world: World) -> None:
    schema = {"type": "object", "properties": {"k": {"$ref": "other.json"}}}
    tools = [PICK, {"name": "f", "input_schema": schema}]
    response = await world.message(tools=tools)
    assert "tools[1].input_schema.properties.k" in refused(response, 400, "invalid_request_error")
    assert not world.books.opened


@BOTH
async def test_thoughts_are_blocks_of_their_own(world: World, stream: bool) -> None:
    world.text.thoughts = Thinking("<think>", "</think>")
    world.say("<think>\nhm\n</think>\n\nok")
    blocks, _, usage = await ask(world, stream)
    thought = {"type": "thinking", "thinking": "hm", "signature": ""}
    assert blocks == [thought, text("ok")]
    assert usage["output_tokens_details"]["thinking_tokens"] == len("<think>\nhm\n</think>")
    sent_back = [*HI, {"role": "assistant", "content": blocks}, *HI]
    assert (await ask(world, stream, messages=sent_back))[0] == blocks


async def test_who_asks_is_told_by_either_header(world: World) -> None:
    del world.http.headers["authorization"]
    answer = await world.message()
    refused(answer, 401, "authentication_error")
    world.http.headers["x-api-key"] = KEY
    assert (await world.message()).status_code == 200
    world.http.headers["x-api-key"] = "hr-admin_secret"
    refused(await world.message(), 403, "permission_error")


async def test_the_version_is_one_of_those_there_are(world: World) -> None:
    for version in VERSIONS:
        world.http.headers["anthropic-version"] = version
        assert (await world.message()).status_code == 200
    world.http.headers["anthropic-version"] = "2023-01-01"
    message = refused(await world.message(), 400, "invalid_request_error")
    assert "anthropic-version" in message
    count = await world.http.post("/v1/messages/count_tokens", json={"model": MODEL})
    assert "anthropic-version" in refused(count, 400, "invalid_request_error")


async def test_models_are_listed_as_anthropics_for_those_who_say_its_version(world: World) -> None:
    world.http.headers["anthropic-version"] = VERSIONS[-1]
    info = {
        "type": "model",
        "id": MODEL,
        "display_name": MODEL,
        "created_at": "1970-01-01T00:00:01Z",
        "max_input_tokens": CONTEXT,
        "lifecycle": "active",
    }
    page = {"data": [info], "has_more": False, "first_id": MODEL, "last_id": MODEL}
    assert (await world.http.get("/v1/models")).json() == page
    assert (await world.http.get(f"/v1/models/{MODEL}")).json() == info
    refused(await world.http.get("/v1/models/none"), 404, "not_found_error")
    world.keys.limit(requests_per_minute=10)
    limits = (await world.http.get("/v1/models")).headers
    assert limits["anthropic-ratelimit-requests-remaining"] == "10"
    assert "x-ratelimit-remaining-requests" not in limits
    world.http.headers["anthropic-version"] = "1"
    refused(await world.http.get("/v1/models"), 400, "invalid_request_error")
    world.http.headers["authorization"] = "Bearer hr-no_body"
    refused(await world.http.get("/v1/models"), 401, "authentication_error")


async def test_refusals_are_in_its_shape(world: World) -> None:
    refused(await world.message(model="x"), 404, "not_found_error")
    assert "nope" in refused(await world.message(nope=1), 400, "invalid_request_error")
    refused(await world.message(max_tokens=5000), 400, "invalid_request_error")
    refused(await world.http.get("/v1/messages"), 405, "invalid_request_error")
    refused(await world.http.post("/v1/messages/batches"), 404, "not_found_error")
    large = await world.http.post("/v1/messages", content=b" " * ((16 << 20) + 1))
    refused(large, 413, "invalid_request_error")
    world.services.gate.closed = True
    answer = await world.message()
    refused(answer, 503, "api_error")
    assert answer.headers["retry-after"]
    world.services.gate.closed = False


async def test_too_much_work_is_overload() -> None:
    async with World(max_sequences=1, max_queue=0) as world:
        world.supervisor.paused = True
        async with world.listening() as url, httpx.AsyncClient(headers=AUTH) as http:
            body = {"model": MODEL, "max_tokens": 9, "messages": HI, "stream": True}
            async with http.stream("POST", f"{url}/v1/messages", json=body):
                answer = await world.message()
                refused(answer, 529, "overloaded_error")
                assert answer.headers["retry-after"]
                world.supervisor.paused = False
        await world.idle()


async def test_a_fault_in_a_stream_is_its_last_event(world: World) -> None:
    world.supervisor.pace = 0.001
    world.say("x" * 400, eos=False)
    async with world.listening() as url, httpx.AsyncClient(headers=AUTH) as http:
        body = {"model": MODEL, "max_tokens": 400, "messages": HI, "stream": True}
        async with http.stream("POST", f"{url}/v1/messages", json=body) as response:
            said = b""
            async for data in response.aiter_raw():
                if not said:
                    world.supervisor.die("the engine process is gone")
                said += data
    name, data = said.decode().rstrip("\n").split("\n\n")[-1].split("\n")
    assert name == "event: error"
    error = json.loads(data.removeprefix("data: "))
    assert error["error"]["type"] == "api_error"
    assert "engine process is gone" in error["error"]["message"]
    assert error["request_id"] == response.headers["request-id"]


async def test_quiet_streams_are_pinged() -> None:
    async with World(keepalive=0.02) as world, world.listening() as url:
        world.say("ok")
        world.supervisor.paused = True
        body = {"model": MODEL, "max_tokens": 9, "messages": HI, "stream": True}
        said = b""
        async with (
            httpx.AsyncClient(headers=AUTH) as http,
            http.stream("POST", f"{url}/v1/messages", json=body) as response,
        ):
            async for data in response.aiter_raw():
                said += data
                if said.count(ANTHROPIC.beat) >= 2:
                    world.supervisor.paused = False
        assert [event["type"] for event in parsed(said)][:3] == ["message_start", "ping", "ping"]
        await world.idle()


@BOTH
async def test_limits_are_told_as_anthropics(world: World, stream: bool) -> None:
    world.keys.limit(
        requests_per_minute=2, input_tokens_per_minute=1000, output_tokens_per_minute=500
    )
    for left in (1, 0, 0):
        response = await world.message(stream=stream, max_tokens=10)
        for group in GROUPS:
            reset = response.headers[f"anthropic-ratelimit-{group}-reset"]
            assert datetime.fromisoformat(reset) > datetime.now(UTC)
            assert int(response.headers[f"anthropic-ratelimit-{group}-limit"]) > 1
        assert response.headers["anthropic-ratelimit-requests-remaining"] == str(left)
        assert not [name for name in response.headers if name.startswith("x-ratelimit")]
    assert "requests per minute" in refused(response, 429, "rate_limit_error")
    assert 0 < int(response.headers["retry-after"]) <= 30
    assert len(world.books.opened) == 2


async def test_a_count_of_tokens_counts_as_a_request_and_costs_no_tokens(world: World) -> None:
    world.keys.limit(requests_per_minute=1, input_tokens_per_minute=1)
    body = {"model": MODEL, "messages": HI}
    counted = await world.http.post("/v1/messages/count_tokens", json=body)
    assert (counted.status_code, counted.json()) == (200, {"input_tokens": PROMPT})
    assert counted.headers["anthropic-ratelimit-requests-remaining"] == "0"
    assert counted.headers["anthropic-ratelimit-input-tokens-remaining"] == "1"
    refusal = await world.http.post("/v1/messages/count_tokens", json=body)
    assert "requests per minute" in refused(refusal, 429, "rate_limit_error")
    assert world.books.opened == {}


async def test_a_lower_class_can_be_asked_for(world: World) -> None:
    world.keys.tenant = type(world.keys.tenant)(
        id=world.keys.tenant.id, name="acme", service_class="interactive"
    )
    assert (await ask(world, False))[2]["service_tier"] == "priority"
    assert (await ask(world, False, service_tier="standard_only"))[2]["service_tier"] == "standard"


async def test_who_leaves_stops_the_work(world: World) -> None:
    world.supervisor.pace = 0.002
    world.say("x" * 400, eos=False)
    async with world.listening() as url, httpx.AsyncClient(headers=AUTH) as http:
        body = {"model": MODEL, "max_tokens": 400, "messages": HI, "stream": True}
        async with http.stream("POST", f"{url}/v1/messages", json=body) as response:
            await anext(response.aiter_raw())
        await until(lambda: len(world.books.closed) == 1)
    assert world.books.last()["ending"] == "cancelled"


@BOTH
async def test_an_answer_may_have_a_form(world: World, stream: bool) -> None:
    number = {"type": "object", "properties": {"k": {"type": "integer"}}, "required": ["k"]}
    world.say('{"k":12}')
    config = {"format": {"type": "json_schema", "schema": number}}
    blocks, stopped, _ = await ask(world, stream, output_config=config, temperature=0)
    assert (blocks, stopped) == ([text('{"k":12}')], ("end_turn", None))
    config["format"]["schema"] = {"type": "strin"}
    response = await world.message(output_config=config)
    told = refused(response, 400, "invalid_request_error")
    assert "output_config.format.schema.type" in told


async def test_how_much_to_think_is_told_to_templates_that_ask(world: World) -> None:
    world.also(name="thinker", reasoning=True)
    world.text.thoughts = Thinking("<think>", "</think>")

    async def prompt(**fields: Any) -> str:
        await ask(world, False, model="thinker", max_tokens=10, **fields)
        tokens = world.supervisor.model.prompts[-1]
        return bytes(token for token in tokens if token < 256).decode().split("<user>")[0]

    assert await prompt() == ""
    assert await prompt(thinking={"type": "disabled"}) == "<quiet>"
    assert await prompt(thinking={"type": "adaptive"}) == ""
    assert await prompt(thinking={"type": "enabled", "budget_tokens": 7}) == "<budget 7>"


@pytest.mark.parametrize(
    "fields",
    [
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        {"thinking": {"type": "adaptive", "display": "omitted"}},
        {"thinking": {"type": "disabled"}, "output_config": {"effort": "max"}},
    ],
)
async def test_a_model_without_thoughts_accepts_what_asks_for_none(
    world: World, fields: dict[str, Any]
) -> None:
    assert (await world.message(**fields)).status_code == 200
    plain = await world.http.post(
        "/v1/messages/count_tokens", json={"model": MODEL, "messages": HI}
    )
    told = {"model": MODEL, "messages": HI, **fields}
    assert (await world.http.post("/v1/messages/count_tokens", json=told)).json() == plain.json()


async def test_a_model_without_thoughts_refuses_a_budget_for_them(world: World) -> None:
    thinking = {"type": "enabled", "budget_tokens": 7}
    message = refused(await world.message(thinking=thinking), 400, "invalid_request_error")
    assert "'thinking'" in message


async def test_thoughts_that_are_to_be_left_out_are_refused(world: World) -> None:
    world.also(name="thinker", reasoning=True)
    asked = {"model": "thinker", "thinking": {"type": "adaptive", "display": "omitted"}}
    message = refused(await world.message(**asked), 400, "invalid_request_error")
    assert "'thinking.display'" in message


async def test_the_default_effort_is_accepted_where_the_template_has_no_term_for_it(
    world: World,
) -> None:
    world.also(name="thinker", reasoning=True)
    effort = {"model": "thinker", "output_config": {"effort": "high"}}
    assert (await world.message(**effort)).status_code == 200
    effort["output_config"] = {"effort": "low"}
    assert "effort" in refused(await world.message(**effort), 400, "invalid_request_error")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_full_context_is_told_in_anthropics_words(world: World, stream: bool) -> None:
    long = [{"role": "user", "content": "x" * CONTEXT}]
    asked: Any = {"messages": long, "stream": stream}
    message = refused(await world.message(**asked), 400, "invalid_request_error")
    tokens = CONTEXT + len("<user></>") + 2
    assert message == f"prompt is too long: {tokens} tokens > {CONTEXT} maximum"
    asked = {"max_tokens": CONTEXT, "stream": stream}
    message = refused(await world.message(**asked), 400, "invalid_request_error")
    words = "input length and `max_tokens` exceed context limit"
    assert message.startswith(f"{words}: {PROMPT} + {CONTEXT} > {CONTEXT},")


def test_a_prompt_that_was_not_counted_to_its_end_is_at_least_so_long() -> None:
    error = ContextLengthExceeded(100, 500, 1, exact=False)
    told = json.loads(error_body(error, "r"))["error"]
    assert told["message"] == "prompt is too long: at least 500 tokens > 100 maximum"
    found = re.search(r"prompt is too long[^0-9]*(\d+)\s*tokens?\s*>\s*(\d+)", told["message"])
    assert found is not None
    assert found.groups() == ("500", "100")


@BOTH
async def test_thoughts_end_when_their_budget_is_spent(world: World, stream: bool) -> None:
    world.also(name="thinker", reasoning=True)
    world.text.thoughts = Thinking("<think>", "</think>", begun=True)
    spent = len("</think>")
    fields: Any = {"model": "thinker", "temperature": 0, "max_tokens": 100}
    for said, budget, blocks in (
        ("hm, let me see</think>ok", 50, ["hm, let me see", "ok"]),
        ("hm, let me see" + " " * spent + "ok", 5, ["hm, l", "ok"]),  # it goes on behind the marker
    ):
        world.say(said)
        thinking = {"type": "enabled", "budget_tokens": budget}
        found, stopped, usage = await ask(world, stream, thinking=thinking, **fields)
        assert found[0]["thinking"] == blocks[0]
        assert found[1]["text"].endswith(blocks[1])
        assert stopped == ("end_turn", None)
        tokens = usage["output_tokens_details"]["thinking_tokens"]
        assert tokens == len(blocks[0]) + spent
    calls: Any = {
        "tools": [PICK],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
    }
    world.say("hm, let me see</think>" + OTHER)
    found, stopped, _ = await ask(world, stream, **calls, **fields, thinking=thinking)
    assert [block["type"] for block in found] == ["thinking", "tool_use"]
    assert (found[0]["thinking"], stopped) == ("hm, l", ("tool_use", None))


@BOTH
async def test_a_last_message_of_the_assistants_is_continued(world: World, stream: bool) -> None:
    said = [*HI, {"role": "assistant", "content": [text("The fruit "), text("is")]}]
    blocks, _, usage = await ask(world, stream, messages=said)
    assert blocks == [text("ok then")]
    prompt = b"<user>Say ok.</><assistant>The fruit is"
    assert world.supervisor.model.prompts[-1][1:] == list(prompt)
    told = {"model": MODEL, "messages": said}
    counted = await world.http.post("/v1/messages/count_tokens", json=told)
    assert counted.json() == {"input_tokens": usage_of(world)["input_tokens"]}
    assert usage["input_tokens"] == len(prompt) + 1


async def test_a_billing_line_is_neither_told_nor_counted(world: World) -> None:
    line = "x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=cli; cch="
    for number in (1, 2):
        system = [text(f"{line}{number};"), text("You help.")]
        _, _, usage = await ask(world, False, system=system)
        prompt = bytes(world.supervisor.model.prompts[-1][1:-1])
        assert prompt == b"<system>You help.</><user>Say ok.</>"
        told = {"model": MODEL, "messages": HI, "system": system}
        counted = await world.http.post("/v1/messages/count_tokens", json=told)
        assert counted.json() == {"input_tokens": len(prompt) + 2}
    assert usage["cache_read_input_tokens"] == 32


@BOTH
async def test_a_coding_agents_request_is_accepted_unchanged(world: World, stream: bool) -> None:
    world.also(name="wide", context_length=100_000)
    source = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{{ tools | length }}"
    world.text.template = ChatTemplate(source, bos_token="", eos_token="")
    response = await world.http.post(
        "/v1/messages?beta=true",
        json={**agents.request("wide", number=1, max_tokens=100), "stream": stream},
        headers=agents.HEADERS,
    )
    assert response.status_code == 200, response.text
    prompt = bytes(t for t in world.supervisor.model.prompts[-1] if t < 256).decode()
    assert prompt.startswith("<system>You are a coding agent.\nYou answer briefly.<user>")
    assert prompt.endswith(f"<system>Agents that can be started: none.{agents.TOOLS}")


@BOTH
async def test_a_coding_agent_that_asks_for_too_long_an_answer_reads_how_much_fits(
    world: World, stream: bool
) -> None:
    """The agent doesn't know the context. It asks again for what is left, less 1000."""
    world.also(name="narrow", context_length=1400)
    source = "{% for m in messages %}{{ m.content }}{% endfor %}{{ tools | length }}"
    world.text.template = ChatTemplate(source, bos_token="", eos_token="")
    body = {**agents.request("narrow", number=1), "stream": stream}
    ask = partial(world.http.post, "/v1/messages?beta=true", headers=agents.HEADERS)
    told = refused(await ask(json=body), 400, "invalid_request_error")
    numbers = re.search(r"exceed context limit: (\d+) \+ (\d+) > (\d+)", told)
    assert numbers is not None
    prompt, asked, context = map(int, numbers.groups())
    assert (asked, context) == (body["max_tokens"], 1400)
    response = await ask(json={**body, "max_tokens": context - prompt - 1000})
    assert response.status_code == 200, response.text


@BOTH
async def test_a_coding_agents_title_has_its_form(world: World, stream: bool) -> None:
    world.say('{"title":"Files"}')
    blocks, stopped, _ = await ask(world, stream, **agents.title(MODEL, number=1))
    assert (blocks, stopped) == ([text('{"title":"Files"}')], ("end_turn", None))
    prompt = bytes(world.supervisor.model.prompts[-1][1:-1])
    assert prompt == b"<system>Name the talk.</><user>Count the files.</>"
