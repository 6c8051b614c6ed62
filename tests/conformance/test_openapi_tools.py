"""Answers with function calls against OpenAI's own description of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.edge.fakes import World, events
from tests.edge.test_tools import CALL, OTHER, TOOLS


@pytest.fixture(scope="module")
def components(suites: Path) -> Any:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load((suites / "openapi" / "openai.yaml").read_text(), loader)["components"]


def check(components: Any, name: str, value: Any) -> None:
    schema = {"$ref": f"#/components/schemas/{name}", "components": components}
    jsonschema.Draft202012Validator(schema).validate(value)


@pytest.mark.parametrize("choice", ["auto", "required"])
async def test_answers_with_calls(world: World, components: Any, choice: str) -> None:
    world.say(f"{CALL}\n{OTHER}")
    asked: Any = {"tools": TOOLS, "tool_choice": choice, "temperature": 0, "max_tokens": 300}
    check(components, "CreateChatCompletionResponse", (await world.chat(**asked)).json())
    deltas = [
        choice["delta"]
        for chunk in events(await world.chat(stream=True, **asked))
        for choice in chunk["choices"]
    ]
    for delta in deltas:
        check(components, "ChatCompletionStreamResponseDelta", delta)
