"""Anthropic's official client, unmodified, over a real socket."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import pytest

from tests.edge.fakes import KEY, MODEL, World

HI: Any = [{"role": "user", "content": "How warm is it?"}]
CALL = '<tool_call>\n{"name": "get_temp", "arguments": {"city": "Oslo"}}\n</tool_call>'


@anthropic.beta_async_tool
async def get_temp(city: str) -> str:
    """The temperature.

    Args:
        city: where
    """
    return f"7 degrees in {city}"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World() as running:
        running.say("ok then")
        yield running
        await running.idle()


@pytest.fixture
async def client(world: World) -> AsyncIterator[anthropic.AsyncAnthropic]:
    options: Any = {"api_key": KEY, "max_retries": 0}
    async with world.listening() as url, anthropic.AsyncAnthropic(base_url=url, **options) as made:
        yield made


@pytest.mark.parametrize("thread", [True, False])
async def test_its_tool_runner_runs_to_the_end(
    world: World, client: anthropic.AsyncAnthropic, thread: bool
) -> None:
    def answer(history: list[int]) -> Any:
        """A call, and words behind its result."""
        world.supervisor.model.answer = None
        asked = world.supervisor.model.prompts[-1]
        world.say("7 it is" if b"7 degrees" in bytes(t for t in asked if t < 256) else CALL)
        found = world.supervisor.model(history)
        world.supervisor.model.answer = answer
        return found

    world.supervisor.model.answer = answer
    fields: Any = {"model": MODEL, "max_tokens": 100, "messages": HI, "tools": [get_temp]}
    if not thread:
        fields["thread"] = False
    runner = client.beta.messages.tool_runner(**fields, max_iterations=4)
    said = [message async for message in runner]
    assert [block.type for message in said for block in message.content] == ["tool_use", "text"]
    assert said[-1].content[0].text == "7 it is"  # type: ignore[union-attr]


async def test_a_thread_that_is_to_be_continued_is_not_found(
    client: anthropic.AsyncAnthropic,
) -> None:
    fields: Any = {"model": MODEL, "max_tokens": 100, "messages": HI}
    thread: Any = {"type": "continue", "previous_message_id": "msg_1"}
    with pytest.raises(anthropic.NotFoundError) as lost:
        await client.beta.messages.create(**fields, thread=thread)
    body: Any = lost.value.body
    assert body["error"]["details"] == {"error_code": "thread_not_found"}
    thread = {"type": "create"}
    assert (await client.beta.messages.create(**fields, thread=thread)).content


async def test_its_beta_fields_are_accepted(client: anthropic.AsyncAnthropic) -> None:
    fields: Any = {
        "model": MODEL,
        "max_tokens": 100,
        "messages": HI,
        "betas": ["context-management-2025-06-27"],
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"},
    }
    assert (await client.beta.messages.create(**fields)).content
    async with client.beta.messages.stream(**fields) as stream:
        assert (await stream.get_final_message()).content


async def test_a_full_context_is_its_bad_request(client: anthropic.AsyncAnthropic) -> None:
    fields: Any = {"model": MODEL, "max_tokens": 4, "stream": True}
    with pytest.raises(anthropic.BadRequestError) as refused:
        await client.messages.create(messages=[{"role": "user", "content": "x" * 600}], **fields)
    assert "prompt is too long: " in json.dumps(refused.value.body)
