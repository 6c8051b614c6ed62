"""Tools for models whose chat template knows of none: described, called and answered in words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.text.tools.format import ToolFormat

Message = Mapping[str, Any]


def in_words(
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]],
    format: ToolFormat,
    *,
    takes_system: bool,
) -> list[dict[str, Any]]:
    """The same conversation for a template that knows only roles and contents.

    What can be called stands in the system message or, where the template takes none, in the
    first of the user. Calls are written as the format writes them, results are the user's.
    """
    plain: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] != "tool":
            plain.append(_with_calls(message, format))
        elif plain and plain[-1].get("results"):
            plain[-1]["content"] += "\n" + _result(message)
        else:
            plain.append({"role": "user", "content": _result(message), "results": True})
    for message in plain:
        message.pop("results", None)
    if tools:
        _describe(plain, _description(tools, format), takes_system=takes_system)
    return plain


def _with_calls(message: Message, format: ToolFormat) -> dict[str, Any]:
    plain = {key: value for key, value in message.items() if key != "tool_calls"}
    calls = [
        format.write(call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls") or ()
    ]
    if calls:
        said = [plain["content"]] if plain.get("content") else []
        plain["content"] = "\n".join([*said, format.between.join(calls)])
    return plain


def _result(message: Message) -> str:
    return f"<tool_response>\n{message['content']}\n</tool_response>"


def _description(tools: Sequence[Mapping[str, Any]], format: ToolFormat) -> str:
    listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    example = format.write("function-name", {"parameter": "value"})
    return (
        "You can call functions. These are available, each with a JSON schema of its "
        f"parameters:\n<tools>\n{listed}\n</tools>\n\n"
        "Call a function where it helps to answer. To do so, write its name and its arguments "
        f"like this, and nothing after it:\n{example}\n"
        "Its result will be given to you between <tool_response> and </tool_response>."
    )


def _describe(messages: list[dict[str, Any]], text: str, *, takes_system: bool) -> None:
    """Put a text before everything else."""
    roles = ("system", "developer") if takes_system else ("user",)
    first = next((message for message in messages if message["role"] in roles), None)
    if first is None:
        messages.insert(0, {"role": roles[0], "content": text})
    elif takes_system:
        first["content"] = f"{first['content']}\n\n{text}"
    else:
        first["content"] = f"{text}\n\n{first['content']}"
