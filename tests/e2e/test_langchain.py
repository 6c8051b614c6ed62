"""LangChain's standard tests of chat models against the running service.

All of them that are about text. They need a model that answers sensibly and uses tools.
"""

from __future__ import annotations

from typing import Any, Literal

import pytest
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests
from pydantic import BaseModel

from .conftest import Service

Detail = Literal[
    "audio_input", "audio_output", "reasoning_output", "cache_read_input", "cache_creation_input"
]


def parameters(service: Service) -> dict[str, Any]:
    return {
        "model": service.model,
        "base_url": f"{service.url}/v1",
        "api_key": service.key,
        "temperature": 0,
        "frequency_penalty": 0.5,  # the model is small and would tell one joke without end
        "max_tokens": 256,
        "stream_usage": True,
    }


class TestChatOpenAI(ChatModelIntegrationTests):
    coder: Service

    @pytest.fixture(autouse=True, scope="class")
    def _served(self, request: pytest.FixtureRequest, coder: Service) -> None:
        request.cls.coder = coder

    @property
    def chat_model_class(self) -> type[ChatOpenAI]:
        return ChatOpenAI

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return parameters(self.coder)

    @property
    def supports_json_mode(self) -> bool:
        return True

    @property
    def supported_usage_metadata_details(self) -> dict[Literal["invoke", "stream"], list[Detail]]:
        return {"invoke": ["cache_read_input"], "stream": ["cache_read_input"]}

    def invoke_with_cache_read_input(self, *, stream: bool = False) -> AIMessage:
        model = ChatOpenAI(**self.chat_model_params)
        for _ in range(2):
            parts = list(model.stream(_LONG)) if stream else [model.invoke(_LONG)]
            message = parts[0]
            for part in parts[1:]:
                message += part  # type: ignore[assignment]
        assert message.usage_metadata is not None
        assert message.usage_metadata["input_token_details"]["cache_read"] > 0
        return message


class Joke(BaseModel):
    """A joke."""

    setup: str
    punchline: str


@pytest.mark.parametrize("method", ["function_calling", "json_schema"])
@pytest.mark.parametrize("strict", [None, True])
def test_structured_output_by_every_method(coder: Service, method: Any, strict: Any) -> None:
    model = ChatOpenAI(**parameters(coder))
    asking = model.with_structured_output(Joke, method=method, strict=strict)
    assert isinstance(asking.invoke("Tell me a joke about cats."), Joke)
    *_, last = asking.stream("Tell me a joke about cats.")
    assert isinstance(last, Joke)


_LONG = f"Answer with one word. {'The sea is wide. ' * 40}What is wide?"
