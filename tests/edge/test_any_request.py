"""Whatever a client sends gets an answer in the API's shape, and never a 500."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.api.openai.chat import ChatRequest
from headrace.api.openai.completions import CompletionRequest
from headrace.api.openai.parameters import UNSUPPORTED
from tests.edge.fakes import MODEL, VOCAB, World, error_of

NAMES = sorted(
    {*ChatRequest.__struct_fields__, *CompletionRequest.__struct_fields__, *UNSUPPORTED}
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
        if response.status_code != 200:
            assert error_of(response, response.status_code)["message"]
            assert response.status_code in (400, 404, 529)
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


@fuzzing
@given(prompts, st.dictionaries(st.sampled_from(NAMES), values, max_size=3))
def test_any_completion(prompt: Any, fields: dict[str, Any]) -> None:
    body = {"max_tokens": 3, **fields, "model": MODEL, "prompt": prompt}
    asyncio.run(ask("/v1/completions", body))
