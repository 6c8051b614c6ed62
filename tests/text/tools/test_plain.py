from __future__ import annotations

from typing import Any

from headrace.text.tools.format import FORMATS
from headrace.text.tools.plain import in_words

TOOL: Any = {"type": "function", "function": {"name": "pick", "parameters": {"type": "object"}}}
CALL: Any = {"id": "c1", "type": "function", "function": {"name": "pick", "arguments": {"n": 1}}}
USER: Any = {"role": "user", "content": "hi"}


def words(*messages: Any, tools: Any = (), takes_system: bool = True) -> list[dict[str, Any]]:
    return in_words(messages, tools, FORMATS["hermes"], takes_system=takes_system)


def test_calls_and_results_become_text() -> None:
    called = {"role": "assistant", "content": "", "tool_calls": [CALL, CALL]}
    result = {"role": "tool", "tool_call_id": "c1", "name": "pick", "content": "7"}
    _, said, results = words(USER, called, result, {**result, "content": "8"})
    call = '<tool_call>\n{"name": "pick", "arguments": {"n": 1}}\n</tool_call>'
    assert said == {"role": "assistant", "content": f"{call}\n{call}"}
    assert results["role"] == "user"
    assert results["content"] == (
        "<tool_response>\n7\n</tool_response>\n<tool_response>\n8\n</tool_response>"
    )


def test_tools_are_described_in_the_system_message() -> None:
    system, user = words(USER, tools=[TOOL])
    assert (system["role"], user) == ("system", USER)
    assert '"pick"' in system["content"]
    assert "<tool_call>" in system["content"]
    system, _ = words({"role": "system", "content": "Be brief."}, USER, tools=[TOOL])
    assert system["content"].startswith("Be brief.\n\n")


def test_or_in_the_first_of_the_user() -> None:
    (user,) = words(USER, tools=[TOOL], takes_system=False)
    assert user["role"] == "user"
    assert user["content"].endswith("\n\nhi")


def test_without_tools_nothing_is_added() -> None:
    assert words(USER) == [USER]
