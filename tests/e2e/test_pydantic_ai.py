"""pydantic-ai's agents against the running service."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field
from pydantic_ai import Agent, NativeOutput, PromptedOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from .conftest import Service

SETTINGS = ModelSettings(temperature=0, max_tokens=200)


class City(BaseModel):
    """A city."""

    name: Annotated[str, Field(max_length=20)]
    country: Annotated[str, Field(max_length=20)]
    inhabitants: Annotated[int, Field(ge=0, le=50_000_000)]


def agent(service: Service, **options: Any) -> Agent[None, Any]:
    provider = OpenAIProvider(base_url=f"{service.url}/v1", api_key=service.key)
    model = OpenAIChatModel(service.model, provider=provider)
    return Agent(model, model_settings=SETTINGS, **options)


@pytest.mark.parametrize("output", [ToolOutput, NativeOutput], ids=lambda o: o.__name__)
async def test_a_type_comes_out(service: Service, output: Any) -> None:
    result = await agent(service, output_type=output(City), retries=0).run("Where is the Louvre?")
    assert isinstance(result.output, City)
    assert result.usage.output_tokens > 0


async def test_a_type_by_prompt(coder: Service) -> None:
    asking = agent(coder, output_type=PromptedOutput(City))
    result = await asking.run("Bern is a city in Switzerland. It has 134000 inhabitants.")
    assert result.output == City(name="Bern", country="Switzerland", inhabitants=134000)


@pytest.mark.parametrize("output", [ToolOutput, NativeOutput], ids=lambda o: o.__name__)
async def test_a_type_is_streamed(service: Service, output: Any) -> None:
    asking = agent(service, output_type=output(City), retries=0)
    whole = await asking.run("Where is the Louvre?")
    async with asking.run_stream("Where is the Louvre?") as stream:
        parts = [part async for part in stream.stream_output(debounce_by=None)]
    assert len(parts) > 1
    assert parts[-1] == whole.output


async def test_text_is_streamed(service: Service) -> None:
    async with agent(service).run_stream("Say hello.") as stream:
        parts = [part async for part in stream.stream_text(delta=True, debounce_by=None)]
    assert "".join(parts)


async def test_a_tool_is_called_and_its_result_read(coder: Service) -> None:
    """The tool is offered until it was called: a model this small calls as long as it can."""
    asking = agent(coder)
    asked: list[str] = []

    async def until_called(_: Any, tool: ToolDefinition) -> ToolDefinition | None:
        return None if asked else tool

    @asking.tool_plain(prepare=until_called)
    def get_weather(city: str) -> str:
        """Current weather of a city."""
        asked.append(city)
        return "Sunny, 23 degrees."

    result = await asking.run("What is the weather in Rome right now?")
    assert set(asked) == {"Rome"}
    assert result.output
