"""The official client against the real model."""

from __future__ import annotations

import openai
import pytest

from .conftest import Service

QUESTION = [{"role": "user", "content": "What is the capital of France? Answer in one word."}]


def test_chat_answers_sensibly(service: Service) -> None:
    answer = service.client().chat.completions.create(
        model=service.model, messages=QUESTION, temperature=0, max_tokens=16
    )
    assert "Paris" in (answer.choices[0].message.content or "")
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_streamed_chat_equals_the_whole(service: Service) -> None:
    request = {"model": service.model, "messages": QUESTION, "temperature": 0, "max_tokens": 32}
    whole = service.client().chat.completions.create(**request)
    stream = service.client().chat.completions.create(
        **request, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage == whole.usage
    assert len({chunk.id for chunk in chunks}) == 1


def test_completion_streamed_and_not(service: Service) -> None:
    request = {"model": service.model, "prompt": "Once upon a time", "temperature": 0}
    whole = service.client().completions.create(**request, max_tokens=24)
    stream = service.client().completions.create(**request, max_tokens=24, stream=True)
    assert "".join(c.choices[0].text for c in stream if c.choices) == whole.choices[0].text
    assert whole.usage is not None
    assert whole.usage.completion_tokens <= 24


def test_same_seed_same_text(service: Service) -> None:
    def draw(seed: int) -> str | None:
        answer = service.client().chat.completions.create(
            model=service.model, messages=QUESTION, temperature=1.5, max_tokens=24, seed=seed
        )
        return answer.choices[0].message.content

    assert draw(7) == draw(7)
    assert len({draw(seed) for seed in range(5)}) > 1


def test_errors_arrive_as_the_clients_exceptions(service: Service) -> None:
    stranger = openai.OpenAI(base_url=f"{service.url}/v1", api_key="hr-no_such-key", max_retries=0)
    with pytest.raises(openai.AuthenticationError):
        stranger.models.list()
    client = service.client(max_retries=0)
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="nope", messages=QUESTION)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model=service.model, messages=QUESTION, temperature=9)
    assert refused.value.param == "temperature"
    with pytest.raises(openai.BadRequestError) as long:
        client.completions.create(model=service.model, prompt=[100] * 8192, max_tokens=1)
    assert long.value.code == "context_length_exceeded"
