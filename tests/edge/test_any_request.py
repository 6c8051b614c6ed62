"""Whatever a client sends gets an answer in the API's shape, and never a 500."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.api.anthropic.request import MessagesRequest
from headrace.api.openai.chat import ChatRequest
from headrace.api.openai.completions import CompletionRequest
from headrace.api.openai.neutral import CHAT, COMPLETIONS
from tests.api.anthropic.test_answers import parsed
from tests.edge.fakes import MODEL, VOCAB, World, error_of
from tests.edge.test_messages import refused

NAMES = sorted(
    {*ChatRequest.__struct_fields__, *CompletionRequest.__struct_fields__, *CHAT, *COMPLETIONS}
    - {"model", "messages", "prompt"}
)
numbers = st.sampled_from(
    [0, 1, -1, 2, 4, 5, 16, 17, VOCAB, 2**31, 2**63, -(2**63), 10**30, 0.5, 1.5, -2.0, 1e-320]
)
scalars = st.none() | st.booleans() | numbers | st.text(max_size=3)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["1", "include_usage", "type", "x"]), inner, max_size=2)
    ),
    max_leaves=5,
)
prompts = st.sampled_from(["", "a", ["a", "b"], [1, 2], [[1], [2, 3]], [VOCAB], [], [[]], {}, 7])
roles = st.sampled_from(["user", "system", "developer", "assistant", "tool", "x"])
contents = st.sampled_from(["", "a", "RAISE", "<é>", [{"type": "text", "text": "a"}], [], None, 7])
message = st.fixed_dictionaries(
    {"role": roles, "content": contents}, optional={"name": scalars, "tool_call_id": scalars}
)


async def ask(path: str, body: dict[str, Any]) -> None:
    async with World() as world:
        response = await world.http.post(path, content=msgspec.json.encode(body))
        if response.status_code != 200 and path == "/v1/messages":
            assert refused(response, response.status_code, "invalid_request_error")
        elif response.status_code != 200:
            assert error_of(response, response.status_code)["message"]
            assert response.status_code in (400, 404, 529)
        elif path == "/v1/messages":
            told = parsed(response.content)[-2] if body.get("stream") else response.json()
            assert told["usage"]["output_tokens"] >= 1
        elif body.get("stream"):
            assert response.text.endswith("data: [DONE]\n\n")
        else:
            assert response.json()["usage"]["completion_tokens"] >= 1
        await world.idle()


fuzzing = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@fuzzing
@given(st.lists(message, max_size=3), st.dictionaries(st.sampled_from(NAMES), values, max_size=3))
def test_any_chat(messages: list[Any], fields: dict[str, Any]) -> None:
    body = {"max_tokens": 3, **fields, "model": MODEL, "messages": messages}
    asyncio.run(ask("/v1/chat/completions", body))


blocks = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "thinking", "tool_use", "tool_result", "image"])},
    optional={
        "text": scalars,
        "thinking": scalars,
        "id": st.sampled_from(["a", "b", ""]),
        "tool_use_id": st.sampled_from(["a", "b", 7]),
        "name": st.sampled_from(["f", "", None]),
        "input": st.sampled_from([{}, {"n": 1}, [], "{}"]),
        "content": contents,
    },
)
turns = st.lists(
    st.fixed_dictionaries({"role": roles, "content": contents | st.lists(blocks, max_size=3)}),
    max_size=4,
)
MESSAGE_NAMES = sorted({*MessagesRequest.__struct_fields__} - {"model", "messages", "max_tokens"})


@fuzzing
@given(turns, st.dictionaries(st.sampled_from(MESSAGE_NAMES), values, max_size=2))
def test_any_messages(messages: list[Any], fields: dict[str, Any]) -> None:
    body = {"max_tokens": 3, **fields, "model": MODEL, "messages": messages}
    asyncio.run(ask("/v1/messages", body))


@fuzzing
@given(prompts, st.dictionaries(st.sampled_from(NAMES), values, max_size=3))
def test_any_completion(prompt: Any, fields: dict[str, Any]) -> None:
    body = {"max_tokens": 3, **fields, "model": MODEL, "prompt": prompt}
    asyncio.run(ask("/v1/completions", body))
