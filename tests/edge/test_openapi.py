"""The OpenAPI document says what is accepted and answered, no more and no less."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.routing import Route

from headrace.api.openai.chat_completion import ChatCompletion, ChatCompletionChunk
from headrace.api.openai.text_completion import TextCompletion, TextCompletionChunk
from tests.edge.fakes import KEY, MODEL, World, events
from tests.openapi import hold_to

STREAM = {"stream": True, "stream_options": {"include_usage": True}}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World() as running:
        running.say("ok")
        yield running


async def document(world: World) -> dict[str, Any]:
    response = await world.http.get("/openapi.json")
    found: dict[str, Any] = response.json()
    return found


async def test_every_route_is_documented(world: World) -> None:
    paths = (await document(world))["paths"]
    told = {(path, method.upper()) for path, methods in paths.items() for method in methods}
    routes = [route for route in world.app.app.routes if isinstance(route, Route)]
    served = {
        (re.sub(r":\w+}", "}", route.path), method)
        for route in routes
        for method in (route.methods or set()) - {"HEAD"}
    }
    assert told == served


async def test_schemathesis_passes(world: World, tmp_path: Path) -> None:
    """With the model's true name, so that what is generated is also answered. Rules across fields
    are told in words alone, so what its schema allows may still be a 400."""
    told = await document(world)
    for name in ("ChatRequest", "CompletionRequest", "MessagesRequest", "CountRequest"):
        told["components"]["schemas"][name]["properties"]["model"] = {"enum": [MODEL]}
    async with world.listening() as url:
        await hold_to(told, url, KEY, tmp_path)
    await world.idle()


@pytest.mark.parametrize("fields", [{}, {"logprobs": True, "top_logprobs": 2, "n": 2}])
async def test_chats_have_their_shape(world: World, fields: dict[str, Any]) -> None:
    assert is_written_as((await world.chat(**fields)).json(), ChatCompletion)
    for chunk in events(await world.chat(**fields, **STREAM)):
        assert is_written_as(chunk, ChatCompletionChunk)


@pytest.mark.parametrize("fields", [{}, {"logprobs": 2, "echo": True}])
async def test_texts_have_their_shape(world: World, fields: dict[str, Any]) -> None:
    assert is_written_as((await world.complete(**fields)).json(), TextCompletion)
    for chunk in events(await world.complete(**fields, **STREAM)):
        assert is_written_as(chunk, TextCompletionChunk)


async def test_calls_have_their_shape(world: World) -> None:
    world.say('<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>')
    tools = [{"type": "function", "function": {"name": "f"}}]
    whole = (await world.chat(tools=tools)).json()
    assert whole["choices"][0]["message"]["tool_calls"]
    assert is_written_as(whole, ChatCompletion)
    for chunk in events(await world.chat(tools=tools, **STREAM)):
        assert is_written_as(chunk, ChatCompletionChunk)


def is_written_as(value: Any, struct: type[msgspec.Struct]) -> bool:
    """No field is missing, none is unknown, none is of another type."""
    back: Any = msgspec.to_builtins(msgspec.convert(value, struct))
    return bool(back == value)
