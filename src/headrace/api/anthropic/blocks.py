"""What the content of messages is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from headrace.api.cache_control import CacheControl
from headrace.api.empty import Empty

BlockId = Annotated[str, Meta(pattern="^[a-zA-Z0-9_-]{1,64}\\Z")]


class Text(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """citations: clients send them back with an answer, which has none here."""

    text: str
    citations: Empty = None
    cache_control: CacheControl | None = None


class TextBlock(Text, frozen=True, tag_field="type", tag="text"):
    """Among blocks of other types."""


class OnlyText(Text, frozen=True, kw_only=True):
    """Where nothing else may stand."""

    type: Literal["text"]


class ThinkingBlock(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="thinking"
):
    """Thoughts, as an answer of ours gave them; the template decides what becomes of them.
    signature: as it was given, which nothing depends on."""

    thinking: str
    signature: str | None = None


class DirectCaller(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The model, not code that it wrote."""

    type: Literal["direct"]


class ToolUseBlock(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="type",
    tag="tool_use",
):
    """caller, toolset_name: clients send them back. The model itself made the call."""

    id: BlockId
    name: str
    input: dict[str, Any]
    caller: DirectCaller | None = None
    toolset_name: None = None
    cache_control: CacheControl | None = None


class ToolResultBlock(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="type",
    tag="tool_result",
):
    tool_use_id: BlockId
    content: str | list[OnlyText] = ""
    is_error: bool | None = None
    toolset_name: None = None
    cache_control: CacheControl | None = None


UserContent = str | Annotated[list[TextBlock | ToolResultBlock], Meta(min_length=1)]
AssistantContent = str | list[TextBlock | ThinkingBlock | ToolUseBlock]
SystemContent = str | list[OnlyText]


def joined(content: str | Sequence[Text]) -> str:
    """A text, or those of blocks, joined without a separator."""
    return content if isinstance(content, str) else "".join(block.text for block in content)
