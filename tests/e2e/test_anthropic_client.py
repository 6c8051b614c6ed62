"""Anthropic's official client, unmodified, against the real models."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest

from .conftest import Service

QUESTION: Any = [{"role": "user", "content": "What is the capital of France? Answer in one word."}]
GREEDY: Any = {"extra_body": {"temperature": 0}}
"""The client's own API has no such parameter since version 2026-10-21."""
WEATHER: Any = {
    "name": "get_weather",
    "description": "The current weather in a city",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}


def client_of(service: Service, **options: Any) -> anthropic.Anthropic:
    """Without a timeout of its own in one of its headers, as its streams are."""
    options = {"api_key": service.key, "max_retries": 0, "timeout": 60.0, **options}
    return anthropic.Anthropic(base_url=service.url, **options)


def ask(service: Service, **fields: Any) -> anthropic.types.Message:
    fields = {"messages": QUESTION, "max_tokens": 16, **GREEDY, **fields}
    return client_of(service).messages.create(model=service.model, **fields)


def text_of(message: anthropic.types.Message) -> str:
    (block,) = message.content
    assert block.type == "text"
    return block.text


def test_a_message_answers_sensibly_and_its_stream_is_the_same(service: Service) -> None:
    whole = ask(service)
    assert "Paris" in text_of(whole)
    assert whole.stop_reason == "end_turn"
    assert whole.usage.output_tokens <= 16
    fields: Any = {"messages": QUESTION, "max_tokens": 16, **GREEDY}
    with client_of(service).messages.stream(model=service.model, **fields) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == text_of(whole) == text_of(final)
    assert (final.stop_reason, final.usage.output_tokens) == (
        whole.stop_reason,
        whole.usage.output_tokens,
    )
    follow_up = [*QUESTION, {"role": "assistant", "content": whole.content}, *QUESTION]
    assert ask(service, messages=follow_up).content


def test_a_stop_sequence_is_told(service: Service) -> None:
    counted = ask(
        service,
        messages=[{"role": "user", "content": "Count from 1 to 9."}],
        stop_sequences=["4"],
        max_tokens=64,
    )
    assert (counted.stop_reason, counted.stop_sequence) == ("stop_sequence", "4")
    assert "3" in text_of(counted)
    assert "4" not in text_of(counted)


def test_an_02_counts_are_what_calls_have(service: Service) -> None:
    for number, more in enumerate([{}, {"system": "Be brief."}, {"tools": [WEATHER]}]):
        said: Any = [{"role": "user", "content": f"Number {number} of the things to be counted."}]
        counting = client_of(service).messages
        counted = counting.count_tokens(model=service.model, messages=said, **more)  # type: ignore[arg-type]
        usage = ask(service, messages=said, max_tokens=1, **more).usage
        told = usage.input_tokens + (usage.cache_read_input_tokens or 0)
        assert counted.input_tokens == told


def test_a_tool_is_used_and_its_result_understood(coder: Service) -> None:
    said: Any = [{"role": "user", "content": "What is the weather in Paris right now?"}]
    choice = {"type": "any", "disable_parallel_tool_use": True}
    asked: Any = {"tools": [WEATHER], "tool_choice": choice, "max_tokens": 64}
    used = ask(coder, messages=said, **asked)
    assert used.stop_reason == "tool_use"
    call = used.content[-1]
    assert call.type == "tool_use"
    assert (call.name, call.input) == ("get_weather", {"city": "Paris"})
    with client_of(coder).messages.stream(
        model=coder.model, messages=said, **asked, **GREEDY
    ) as stream:
        streamed = stream.get_final_message().content[-1]
    assert streamed.type == "tool_use"
    assert streamed.input == call.input
    said += [
        {"role": "assistant", "content": used.content},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": call.id, "content": "17 degrees, windy"}
            ],
        },
    ]
    again = {"tools": [WEATHER], "tool_choice": {"type": "none"}, "max_tokens": 48}
    assert "17" in text_of(ask(coder, messages=said, **again))


def test_its_models_are_those_that_are_served(service: Service) -> None:
    models = client_of(service).models
    assert service.model in [model.id for model in models.list()]
    assert models.retrieve(service.model).created_at.year > 2000


def test_errors_are_its_exception_classes(service: Service) -> None:
    with pytest.raises(anthropic.BadRequestError) as bad:
        ask(service, extra_body={"temperature": 9})
    assert "temperature" in str(bad.value)
    assert bad.value.request_id
    with pytest.raises(anthropic.NotFoundError):
        client_of(service).messages.create(model="nope", messages=QUESTION, max_tokens=1)
    stranger = client_of(service, api_key="hr-no_such-key")
    with pytest.raises(anthropic.AuthenticationError):
        stranger.messages.create(model=service.model, messages=QUESTION, max_tokens=1)


def test_a_limit_is_told_in_its_headers(service: Service) -> None:
    with service.http() as admin:
        tenant = {"name": "measured", "limits": {"requests_per_minute": 1}}
        assert admin.post("/admin/v1/tenants", json=tenant).status_code == 201
        made = admin.post("/admin/v1/keys", json={"tenant": "measured"}).json()
    limited = client_of(service, api_key=made["key"])
    fields: Any = {"model": service.model, "messages": QUESTION, "max_tokens": 1}
    answered = limited.messages.with_raw_response.create(**fields)
    assert answered.headers["anthropic-ratelimit-requests-remaining"] == "0"
    with pytest.raises(anthropic.RateLimitError) as reached:
        limited.messages.create(**fields)
    headers = reached.value.response.headers
    assert headers["anthropic-ratelimit-requests-limit"] == "1"
    assert 0 < int(headers["retry-after"]) <= 60
