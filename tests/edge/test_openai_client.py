"""The official client, unmodified, over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from tests.edge.fakes import KEY, MODEL, World

HI: Any = [{"role": "user", "content": "Say ok."}]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World(max_sequences=2, max_queue=0) as running, running.listening() as url:
        running.url = f"{url}/v1"  # type: ignore[attr-defined]
        running.say("ok then")
        yield running
        await running.idle()


@pytest.fixture
async def client(world: World) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=world.url, api_key=KEY, max_retries=0) as client:  # type: ignore[attr-defined]
        yield client


async def test_chat_whole(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(model=MODEL, messages=HI, logprobs=True)
    assert answer.choices[0].message.content == "ok then"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 8
    again = [*HI, answer.choices[0].message, *HI]
    follow_up = await client.chat.completions.create(model=MODEL, messages=again)
    assert follow_up.choices[0].message.content == "ok then"


async def test_chat_streamed(client: openai.AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(
        model=MODEL, messages=HI, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "ok then"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 8


async def test_chat_by_the_stream_helper(client: openai.AsyncOpenAI) -> None:
    async with client.chat.completions.stream(model=MODEL, messages=HI) as stream:
        final = await stream.get_final_completion()
    assert final.choices[0].message.content == "ok then"


async def test_completions_whole_and_streamed(client: openai.AsyncOpenAI) -> None:
    whole = await client.completions.create(model=MODEL, prompt="one", logprobs=2)
    assert whole.choices[0].text == "ok then"
    stream = await client.completions.create(model=MODEL, prompt=[1, 2, 3], stream=True)
    assert "".join([c.choices[0].text async for c in stream if c.choices]) == "ok then"


async def test_models(client: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == [MODEL]
    assert (await client.models.retrieve(MODEL)).owned_by == "headrace"


async def test_the_synchronous_client(world: World) -> None:
    def ask() -> tuple[str | None, str]:
        with openai.OpenAI(base_url=world.url, api_key=KEY) as client:  # type: ignore[attr-defined]
            whole = client.chat.completions.create(model=MODEL, messages=HI)
            stream = client.completions.create(model=MODEL, prompt="one", stream=True)
            text = "".join(chunk.choices[0].text for chunk in stream)
            return whole.choices[0].message.content, text

    assert await asyncio.to_thread(ask) == ("ok then", "ok then")


async def test_errors_are_its_exception_classes(world: World, client: openai.AsyncOpenAI) -> None:
    create = client.chat.completions.create
    with pytest.raises(openai.BadRequestError) as refused:
        await create(model=MODEL, messages=HI, temperature=9)
    assert refused.value.param == "temperature"
    assert refused.value.request_id
    with pytest.raises(openai.NotFoundError) as missing:
        await create(model="nope", messages=HI)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.AuthenticationError) as stranger:
        await client.with_options(api_key="hr-no_such").models.list()
    assert stranger.value.code == "invalid_api_key"
    with pytest.raises(openai.PermissionDeniedError):
        await client.with_options(api_key="hr-admin_secret").models.list()
    world.supervisor.pace = 0.001
    running = [
        await create(model=MODEL, messages=HI, stream=True, extra_body={"ignore_eos": True})
        for _ in range(2)
    ]
    with pytest.raises(openai.InternalServerError) as busy:
        await create(model=MODEL, messages=HI)
    for stream in running:
        await stream.close()
    assert (busy.value.status_code, busy.value.code) == (529, "server_is_overloaded")


async def test_a_fault_in_a_stream_is_an_api_error(
    world: World, client: openai.AsyncOpenAI
) -> None:
    world.supervisor.pace = 0.001
    stream = await client.completions.create(
        model=MODEL, prompt="a", max_tokens=400, stream=True, extra_body={"ignore_eos": True}
    )
    await anext(aiter(stream))
    world.supervisor.die("the engine process is gone")
    with pytest.raises(openai.APIError, match="engine process is gone"):
        async for _ in stream:
            pass
    await world.idle()


async def test_closing_a_stream_stops_its_work(world: World, client: openai.AsyncOpenAI) -> None:
    world.supervisor.pace = 0.001
    stream = await client.chat.completions.create(
        model=MODEL, messages=HI, stream=True, extra_body={"ignore_eos": True}
    )
    await anext(aiter(stream))
    await stream.close()
    await world.idle()
    assert world.books.last()["ending"] == "cancelled"
    assert world.books.last()["completion_tokens"] < 100
