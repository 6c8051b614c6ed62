"""The messages of a conversation, as Anthropic's clients write them and as a template reads
them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from headrace.api.anthropic.blocks import (
    AssistantContent,
    SystemContent,
    Text,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserContent,
    joined,
)
from headrace.api.body import BodyError

BETWEEN_MESSAGES = "\n\n"
"""What stands between the texts of messages that become one."""

_BILLING_HEADER = re.compile(r"x-anthropic-billing-header:(?: [\w-]+=[^;\n]*;)+\s*", re.ASCII)

AnyBlock = Text | ThinkingBlock | ToolUseBlock | ToolResultBlock


class UserMessage(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="role", tag="user"
):
    content: UserContent


class AssistantMessage(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="role", tag="assistant"
):
    content: AssistantContent


class SystemMessage(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="role", tag="system"
):
    content: SystemContent


Message = UserMessage | AssistantMessage | SystemMessage


@dataclass(slots=True)
class Turn:
    """Messages of one role that follow each other. blocks: of each its own, with their paths."""

    role: str
    path: str
    messages: list[list[tuple[str, AnyBlock]]] = field(default_factory=list)

    @property
    def blocks(self) -> Iterable[tuple[str, AnyBlock]]:
        return (block for message in self.messages for block in message)

    @property
    def text(self) -> str:
        """Blocks of a message are joined without a separator."""
        texts = [
            joined([block for _, block in message if isinstance(block, Text)])
            for message in self.messages
        ]
        return BETWEEN_MESSAGES.join(text for text in texts if text)

    @property
    def calls(self) -> dict[str, str]:
        """Names of the functions called, by the calls' ids."""
        return {block.id: block.name for _, block in self.blocks if isinstance(block, ToolUseBlock)}


def template_messages(
    system: SystemContent | None, messages: Sequence[Message]
) -> list[dict[str, Any]]:
    """role, content and, where there are any, tool_calls, reasoning_content, tool_call_id and
    name: messages of one role that follow each other are one, results of calls are one each.

    Raises BodyError where calls and results do not belong together, where a result comes behind
    the user's text, and for a last message of the assistant's that does not end with text, since
    the answer continues it.
    """
    turns = _turns(system, messages)
    last = list(turns[-1].blocks)
    if turns[-1].role == "assistant" and last and not isinstance(last[-1][1], Text):
        path, block = last[-1]
        what = "its calls have no results" if isinstance(block, ToolUseBlock) else "it ends so"
        raise BodyError(
            f"Invalid '{path}': the last message is the assistant's, but {what}, so the answer "
            "can't continue it.",
            path,
        )
    rendered: list[dict[str, Any]] = []
    calls: Mapping[str, str] = {}
    for turn in turns:
        results = _results(turn, calls)
        calls = turn.calls
        if turn.role == "assistant":
            rendered.append(_assistant(turn))
            continue
        rendered += results
        if turn.text or not results:
            rendered.append({"role": turn.role, "content": turn.text})
    return rendered


def _without_billing_header(system: SystemContent | None) -> SystemContent | None:
    """The system blocks without the first one, where that is Claude Code's line for its vendor's
    billing. It differs between conversations, and can differ between requests, so no prompt would
    be found in the cache behind it."""
    if isinstance(system, list) and system and _BILLING_HEADER.fullmatch(system[0].text):
        return system[1:]
    return system


def _turns(system: SystemContent | None, messages: Sequence[Message]) -> list[Turn]:
    said = [(f"messages[{i}]", m.__struct_config__.tag, m.content) for i, m in enumerate(messages)]
    if system := _without_billing_header(system):
        said.insert(0, ("system", "system", system))
    turns: list[Turn] = []
    for path, role, content in said:
        if not turns or turns[-1].role != role:
            turns.append(Turn(str(role), path))
        param = path if path == "system" else f"{path}.content"
        blocks = [TextBlock(text=content)] if isinstance(content, str) else content
        turns[-1].messages.append([(f"{param}[{i}]", block) for i, block in enumerate(blocks)])
    return turns


def _assistant(turn: Turn) -> dict[str, Any]:
    rendered: dict[str, Any] = {"role": "assistant", "content": turn.text}
    thoughts = [block.thinking for _, block in turn.blocks if isinstance(block, ThinkingBlock)]
    if thoughts:
        rendered["reasoning_content"] = BETWEEN_MESSAGES.join(thoughts)
    called = [(path, block) for path, block in turn.blocks if isinstance(block, ToolUseBlock)]
    if len(turn.calls) < len(called):
        param = f"{called[-1][0]}.id"
        raise BodyError(f"Invalid '{param}': two calls have the same id.", param)
    if called:
        rendered["tool_calls"] = [
            {
                "id": block.id,
                "type": "function",
                "function": {"name": block.name, "arguments": block.input},
            }
            for _, block in called
        ]
    return rendered


def _results(turn: Turn, calls: Mapping[str, str]) -> list[dict[str, Any]]:
    """Of the calls of the turn before, in their order; each of them must have one."""
    found: dict[str, dict[str, Any]] = {}
    texts = False
    for path, block in turn.blocks:
        if not isinstance(block, ToolResultBlock):
            texts = True
            continue
        id = block.tool_use_id
        if texts:
            raise BodyError(f"Invalid '{path}': results stand before all text.", path)
        if id not in calls or id in found:
            why = "it has a result already" if id in found else "the message before has no such"
            param = f"{path}.tool_use_id"
            raise BodyError(f"Invalid '{param}': {why} call.", param)
        found[id] = {
            "role": "tool",
            "content": _result(block),
            "tool_call_id": id,
            "name": calls[id],
        }
    if missing := [id for id in calls if id not in found]:
        raise BodyError(
            f"Invalid '{turn.path}': the call '{missing[0]}' before it has no result.", turn.path
        )
    return [found[id] for id in calls]


def _result(block: ToolResultBlock) -> str:
    """Templates know no errors, so the text says that it is one."""
    text = joined(block.content)
    return f"Error: {text}" if block.is_error else text
