"""Models that think: their thoughts stand beside the answer, and are counted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from headrace.text.reasoning import Thinking
from tests.edge.fakes import KEY, MODEL, World, error_of, events, joined, text_of

BOTH = pytest.mark.parametrize("stream", [False, True])
HI: Any = [{"role": "user", "content": "Say ok."}]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World() as running:
        running.text.thoughts = Thinking("<think>", "</think>")
        yield running
        await running.idle()


async def ask(world: World, stream: bool, **fields: Any) -> tuple[str, str, Any]:
    """Thoughts, answer and usage of a request with one choice."""
    options = {"stream_options": {"include_usage": True}} if stream else {}
    response = await world.chat(stream=stream, **options, **fields)
    if not stream:
        body = response.json()
        message = body["choices"][0]["message"]
        return message.get("reasoning_content", ""), message["content"], body["usage"]
    chunks = events(response)
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    thoughts = [at for at, delta in enumerate(deltas) if "reasoning_content" in delta]
    texts = [at for at, delta in enumerate(deltas) if delta.get("content")]
    assert not thoughts or not texts or max(thoughts) <= min(texts)
    reasoning = "".join(delta.get("reasoning_content", "") for delta in deltas)
    return reasoning, joined(chunks), chunks[-1]["usage"]


def reasoning_tokens(usage: Any) -> int:
    count: int = usage["completion_tokens_details"]["reasoning_tokens"]
    return count


@BOTH
async def test_thoughts_stand_beside_the_answer(world: World, stream: bool) -> None:
    said = "<think>\nLet me see.\n</think>\n\nok"
    world.say(said)
    thoughts, answer, usage = await ask(world, stream)
    assert (thoughts, answer) == ("Let me see.", "ok")
    assert usage["completion_tokens"] == len(said) + 1
    assert reasoning_tokens(usage) == len("<think>\nLet me see.\n</think>")
    assert world.books.last()["reasoning_tokens"] == reasoning_tokens(usage)


@BOTH
async def test_thoughts_that_the_prompt_began(world: World, stream: bool) -> None:
    world.text.thoughts = Thinking("<think>", "</think>", begun=True)
    world.say("hm</think>ok")
    thoughts, answer, usage = await ask(world, stream)
    assert (thoughts, answer) == ("hm", "ok")
    assert reasoning_tokens(usage) == len("hm</think>")


@BOTH
async def test_an_answer_without_thoughts_is_as_ever(world: World, stream: bool) -> None:
    world.say("ok <think>no</think>")
    thoughts, answer, usage = await ask(world, stream)
    assert (thoughts, answer) == ("", "ok <think>no</think>")
    assert reasoning_tokens(usage) == 0
    if not stream:
        assert "reasoning_content" not in (await world.chat()).json()["choices"][0]["message"]


@BOTH
async def test_a_limit_in_the_middle_of_thoughts(world: World, stream: bool) -> None:
    world.say("<think>a</thi")
    thoughts, answer, usage = await ask(world, stream, max_tokens=13)
    assert (thoughts, answer) == ("a</thi", "")
    assert reasoning_tokens(usage) == 13


@BOTH
async def test_stops_hold_for_the_answer_and_not_for_thoughts(world: World, stream: bool) -> None:
    world.say("<think>an END here</think>an END there")
    thoughts, answer, _ = await ask(world, stream, stop=["END"])
    assert (thoughts, answer) == ("an END here", "an ")


@BOTH
async def test_logprobs_list_the_tokens_of_thoughts_too(world: World, stream: bool) -> None:
    world.say("<think>a</think>b")
    response = await world.chat(stream=stream, logprobs=True)
    choices = [
        c for chunk in (events(response) if stream else [response.json()]) for c in chunk["choices"]
    ]
    content = [entry for c in choices if c["logprobs"] for entry in c["logprobs"]["content"]]
    assert "".join(entry["token"] for entry in content) == "<think>a</think>b"


async def test_every_choice_has_its_own_thoughts(world: World) -> None:
    world.say("<think>a</think>b")
    body = (await world.chat(n=3)).json()
    for index in range(3):
        assert body["choices"][index]["message"]["reasoning_content"] == "a"
        assert text_of(body, index) == "b"
    assert reasoning_tokens(body["usage"]) == 3 * len("<think>a</think>")


async def test_text_completions_are_continued_thoughts_and_all(world: World) -> None:
    world.say("<think>a</think>b")
    assert text_of((await world.complete(max_tokens=20)).json()) == "<think>a</think>b"


async def test_an_answer_can_be_sent_back(world: World) -> None:
    world.say("<think>a</think>b")
    async with world.listening() as url:
        client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)
        answer = await client.chat.completions.create(model=MODEL, messages=HI)
        message = answer.choices[0].message
        assert message.reasoning_content == "a"  # type: ignore[attr-defined]
        assert answer.usage is not None
        assert answer.usage.completion_tokens_details is not None
        assert answer.usage.completion_tokens_details.reasoning_tokens == 16
        again = await client.chat.completions.create(model=MODEL, messages=[*HI, message, *HI])
        assert again.choices[0].message.content == "b"
        await client.close()


def prompt_of(world: World) -> str:
    return bytes(token for token in world.supervisor.model.prompts[-1] if token < 256).decode()


async def test_what_the_template_knows_is_honoured(world: World) -> None:
    assert (await world.chat(reasoning_effort="none", max_tokens=1)).status_code == 200
    assert prompt_of(world).startswith("<quiet>")
    assert (await world.chat(thinking_budget=70, max_tokens=1)).status_code == 200
    assert prompt_of(world).startswith("<budget 70>")
    kwargs = {"enable_thinking": False}
    assert (await world.chat(chat_template_kwargs=kwargs, max_tokens=1)).status_code == 200
    assert prompt_of(world).startswith("<quiet>")
    kwargs = {"enable_thinking": True}
    assert (await world.chat(chat_template_kwargs=kwargs, max_tokens=1)).status_code == 200
    assert prompt_of(world).startswith("<user>")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"reasoning_effort": "high"}, "reasoning_effort"),
        ({"reasoning_effort": "bogus"}, "reasoning_effort"),
        ({"reasoning_effort": 3}, "reasoning_effort"),
        ({"thinking_budget": -1}, "thinking_budget"),
        ({"chat_template_kwargs": {"nope": 1}}, "chat_template_kwargs.nope"),
        ({"chat_template_kwargs": {"messages": 1}}, "chat_template_kwargs.messages"),
        (
            {"chat_template_kwargs": {"enable_thinking": [1]}},
            "chat_template_kwargs.enable_thinking",
        ),
        (
            {"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True}},
            "reasoning_effort",
        ),
    ],
)
async def test_what_it_does_not_know_is_refused_by_name(
    world: World, fields: dict[str, Any], param: str
) -> None:
    error = error_of(await world.chat(**fields), 400)
    assert error["param"].startswith(param)


async def test_text_completions_have_no_template_to_tell(world: World) -> None:
    for field in ("reasoning_effort", "thinking_budget", "chat_template_kwargs"):
        assert error_of(await world.complete(**{field: "low"}), 400)["param"] == field


CHOICE: dict[str, Any] = {"guided_choice": ["ab", "cd"], "max_tokens": 24, "temperature": 0}


@BOTH
@pytest.mark.parametrize("said", ["<think>hm</think>cd", "\n" * 24, "\t\u3000cd"])
@pytest.mark.parametrize(
    "off", [{"chat_template_kwargs": {"enable_thinking": False}}, {"reasoning_effort": "none"}]
)
async def test_with_thoughts_switched_off_a_form_begins_at_the_first_token(
    world: World, stream: bool, said: str, off: dict[str, Any]
) -> None:
    world.say(said)
    thoughts, answer, usage = await ask(world, stream, **CHOICE, **off)
    assert (thoughts, reasoning_tokens(usage)) == ("", 0)
    assert answer in CHOICE["guided_choice"]


async def test_with_thinking_disabled_a_form_of_a_message_begins_at_the_first_token(
    world: World,
) -> None:
    world.also(name="thinker", reasoning=True)
    world.say('<think>hm</think>{"k":1}')
    schema = {"type": "object", "properties": {"k": {"type": "integer"}}, "required": ["k"]}
    body = {
        "model": "thinker",
        "messages": HI,
        "max_tokens": 24,
        "thinking": {"type": "disabled"},
        "output_config": {"format": {"type": "json_schema", "schema": schema}},
    }
    answer = (await world.http.post("/v1/messages", json=body)).json()
    (block,) = answer["content"]
    assert block["type"] == "text"
    assert block["text"].startswith('{"k":')


@BOTH
async def test_white_space_before_a_form_behind_thoughts_is_bounded(
    world: World, stream: bool
) -> None:
    world.say("\n" * 24)
    _, answer, usage = await ask(world, stream, **CHOICE)
    # Two line breaks, and what comes then is the marker: 24 letters are not enough to end thoughts.
    assert answer == ""
    assert reasoning_tokens(usage) >= 20
