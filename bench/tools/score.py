"""Whether an answer called what its task needs."""

from __future__ import annotations

import json
import re
from typing import Any

from schemas.judge import validator
from tools.functions import parameters
from tools.tasks import ANY, Call, Either, Task

Message = dict[str, Any]
"""An assistant's message as a chat completion has it."""

SEPARATORS = re.compile(r"[\s,./\\\-_*^'\"]+")


def fault(task: Task, message: Message, *, parallel: bool = True) -> str | None:
    """What is wrong with the calls themselves, whether or not they solve the task: there are
    some, of functions that were offered, with arguments that parse and validate."""
    calls = message.get("tool_calls") or []
    if not calls:
        return "no call"
    if len(calls) > 1 and not parallel:
        return f"{len(calls)} calls"
    if len({call["id"] for call in calls}) < len(calls):
        return "two calls of one id"
    for call in calls:
        function = call["function"]
        if function["name"] not in task.offered:
            return f"{function['name']} was not offered"
        try:
            arguments = json.loads(function["arguments"])
        except ValueError as error:
            return f"no JSON: {error}"
        if error := next(validator(parameters(function["name"])).iter_errors(arguments), None):
            return f"{function['name']}{error.json_path[1:]}: {error.message}"
    return None


def solved(task: Task, message: Message) -> bool:
    """As many calls as expected, each of them once, in any order."""
    left = list(task.expected)
    for call in message.get("tool_calls") or []:
        match = next((each for each in left if _is(call["function"], each)), None)
        if match is None:
            return False
        left.remove(match)
    return not left


def _is(function: dict[str, str], expected: Call) -> bool:
    if function["name"] != expected.name:
        return False
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        return False
    if not isinstance(arguments, dict) or arguments.keys() - expected.arguments.keys():
        return False
    for name, wanted in expected.arguments.items():
        wanted = wanted if isinstance(wanted, Either) else Either((wanted,))
        if name not in arguments:
            if not wanted.optional:
                return False
        elif not any(value is ANY or _same(arguments[name], value) for value in wanted.values):
            return False
    return True


def _same(given: Any, wanted: Any) -> bool:
    """Texts regardless of case, spaces and punctuation; numbers by value."""
    if isinstance(wanted, str):
        return isinstance(given, str) and _plain(given) == _plain(wanted)
    if isinstance(wanted, list):
        return (
            isinstance(given, list) and len(given) == len(wanted) and all(map(_same, given, wanted))
        )
    return isinstance(given, bool) == isinstance(wanted, bool) and bool(given == wanted)


def _plain(text: str) -> str:
    return SEPARATORS.sub("", text).casefold()
