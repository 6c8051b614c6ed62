"""LangChain's standard tests of chat models against the running service.

All of them that are about text. They need a model that answers sensibly and uses tools.
"""

from __future__ import annotations

from typing import Any, Literal

import pytest
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests

from .conftest import Service

Detail = Literal[
    "audio_input", "audio_output", "reasoning_output", "cache_read_input", "cache_creation_input"
]


class TestChatOpenAI(ChatModelIntegrationTests):
    """Structured output by `json_schema`, which is ChatOpenAI's own way."""

    coder: Service

    @pytest.fixture(autouse=True, scope="class")
    def _served(self, request: pytest.FixtureRequest, coder: Service) -> None:
        request.cls.coder = coder

    @property
    def chat_model_class(self) -> type[ChatOpenAI]:
        return ChatOpenAI

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {
            "model": self.coder.model,
            "base_url": f"{self.coder.url}/v1",
            "api_key": self.coder.key,
            "temperature": 0,
            "max_tokens": 256,
            "stream_usage": True,
        }

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


class TestFunctionCalling(TestChatOpenAI):
    """Structured output by a forced tool."""

    @property
    def structured_output_kwargs(self) -> dict[str, Any]:
        return {"method": "function_calling"}


_LONG = f"Answer with one word. {'The sea is wide. ' * 40}What is wide?"
