"""Requests as a coding agent sends them to `/v1/messages`: many tools, system blocks, and fields
that change nothing. The shape is Claude Code's (version 2.1); the words are our own."""

from __future__ import annotations

from typing import Any

TOOLS = 24
_VERBS = ("read", "write", "list", "find", "run", "stop")
_THINGS = ("file", "folder", "process", "task")

_MARK: Any = {"type": "ephemeral"}
HEADERS = {
    "anthropic-version": "2023-06-01",
    "anthropic-beta": "context-management-2025-06-27,effort-2025-11-24,some-beta-of-tomorrow",
    "anthropic-dangerous-direct-browser-access": "true",
    "x-app": "cli",
    "x-stainless-retry-count": "0",
}

OPTIONS: list[Any] = [
    {"type": "boolean"},
    {"type": "string", "enum": ["low", "medium", "high"]},
    {"type": "array", "items": {"type": "string"}, "maxItems": 32},
    {"type": "object", "additionalProperties": {"type": "string"}},
    {"type": "number", "minimum": 0, "maximum": 600000},
]


def tool(number: int, options: int = 0) -> dict[str, Any]:
    """options: parameters that need not be given, beside the three that every tool has."""
    name = f"{_VERBS[number % len(_VERBS)]}_{_THINGS[number % len(_THINGS)]}_{number}"
    return {
        "name": name,
        "description": f"Does what its name says: {name.replace('_', ' ')}.\n\n- It is number "
        f"{number} of {TOOLS}.\n- It fails where there is nothing of that name.",
        "input_schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "An absolute path"},
                "limit": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9007199254740991},
                "text": {"type": "string", "maxLength": 524288, "default": ""},
                **{f"option_{number}_{i}": OPTIONS[i] for i in range(options)},
            },
            "required": ["path"],
            "additionalProperties": False,
        },
    }


def request(model: str, *, number: int, max_tokens: int = 64000) -> dict[str, Any]:
    """The first turn. number: of the request, which its billing line has."""
    user: list[dict[str, Any]] = [
        {"type": "text", "text": "<reminder>\nThe folder is /srv/app.\n</reminder>"},
        {"type": "text", "text": "What is in the folder?", "cache_control": _MARK},
    ]
    return {
        "model": model,
        "messages": [
            {"role": "user", "content": user},
            {"role": "system", "content": "Agents that can be started: none."},
        ],
        "system": [
            {
                "type": "text",
                "text": f"x-anthropic-billing-header: cc_version=2.1.197.{number}; "
                f"cc_entrypoint=cli; cch={number:05x};",
            },
            {"type": "text", "text": "You are a coding agent.", "cache_control": _MARK},
            {"type": "text", "text": "\nYou answer briefly.", "cache_control": _MARK},
        ],
        "tools": [tool(number) for number in range(TOOLS)],
        "metadata": {"user_id": '{"device_id":"d","account_uuid":"","session_id":"s"}'},
        "max_tokens": max_tokens,
        "thinking": {"type": "adaptive"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "output_config": {"effort": "high"},
    }


def title(model: str, *, number: int) -> dict[str, Any]:
    """What the agent asks of its smaller model beside the first turn: no tools, but a form."""
    first = request(model, number=number, max_tokens=100)
    schema = {
        "type": "object",
        "properties": {"title": {"type": "string"}},
        "required": ["title"],
        "additionalProperties": False,
    }
    return {
        "model": model,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Count the files."}]}],
        "system": [*first["system"][:1], {"type": "text", "text": "Name the talk."}],
        "metadata": first["metadata"],
        "max_tokens": first["max_tokens"],
        "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": schema}},
    }


def next_turn(
    first: dict[str, Any], answer: list[dict[str, Any]], *, number: int
) -> dict[str, Any]:
    """The turn behind an answer's content, with results of its calls."""
    follow_up = request(first["model"], number=number, max_tokens=first["max_tokens"])
    user, instructions = follow_up["messages"]
    asked = user["content"][-1]
    unmarked = {name: value for name, value in asked.items() if name != "cache_control"}
    user["content"][-1] = unmarked
    results: list[dict[str, Any]] = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": "a.py"}
        for block in answer
        if block["type"] == "tool_use"
    ]
    said = {"type": "text", "text": "And how many are there?", "cache_control": _MARK}
    follow_up["messages"] = [
        user,
        instructions,
        {"role": "assistant", "content": answer},
        {"role": "user", "content": [*results, said]},
    ]
    return follow_up
