"""What the content of messages is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

BlockId = Annotated[str, Meta(pattern="^[a-zA-Z0-9_-]{1,64}\\Z")]


class CacheControl(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Asks that all up to here be kept for later requests. Every prompt is, as long as there is
    room for it, so it says nothing more."""

    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] | None = None


class Text(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """citations: clients send them back with an answer of ours, which has none."""

    text: str
    citations: None = None
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
    signature: str = ""


class ToolUseBlock(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="type",
    tag="tool_use",
):
    """caller and toolset_name: clients send them back, with nothing in them."""

    id: BlockId
    name: str
    input: dict[str, Any]
    caller: None = None
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
    cache_control: CacheControl | None = None


UserContent = str | Annotated[list[TextBlock | ToolResultBlock], Meta(min_length=1)]
AssistantContent = str | list[TextBlock | ThinkingBlock | ToolUseBlock]
SystemContent = str | list[OnlyText]


def joined(content: str | Sequence[Text]) -> str:
    """A text, or those of blocks, joined without a separator."""
    return content if isinstance(content, str) else "".join(block.text for block in content)
