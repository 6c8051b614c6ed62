"""The messages of a chat, as OpenAI's clients write them, and as a template reads them."""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headrace.api.body import BodyError

UNSUPPORTED_IN_MESSAGE = re.compile(
    r"messages\[\d+\]\.(?:tool_calls|function_call|audio|annotations)(?![^\[.])"
)
"""Paths of fields that have a meaning for OpenAI which we cannot honour yet."""

Nothing = Annotated[list[None], Meta(max_length=0)] | None
"""Null or an empty list: clients send these back with an answer of ours."""


class TextPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="text"):
    text: str


class RefusalPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="refusal"):
    refusal: str


class ImagePart(msgspec.Struct, frozen=True, tag="image_url"):
    image_url: Any = None


class AudioPart(msgspec.Struct, frozen=True, tag="input_audio"):
    input_audio: Any = None


class FilePart(msgspec.Struct, frozen=True, tag="file"):
    file: Any = None


Part = TextPart | RefusalPart | ImagePart | AudioPart | FilePart
Content = str | Annotated[list[Part], Meta(min_length=1)]

_REFUSED_PARTS = {ImagePart: "images", AudioPart: "audio", FilePart: "files"}


class _Instruction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="role"):
    content: Content
    name: str | None = None


class SystemMessage(_Instruction, frozen=True, tag="system"):
    pass


class DeveloperMessage(_Instruction, frozen=True, tag="developer"):
    pass


class UserMessage(_Instruction, frozen=True, tag="user"):
    pass


class AssistantMessage(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="role", tag="assistant"
):
    """content may be absent only where a refusal stands in its place. reasoning_content: its
    thoughts, as an answer of ours gave them; the template decides what becomes of them."""

    content: Content | None = None
    reasoning_content: str | None = None
    refusal: str | None = None
    name: str | None = None
    tool_calls: Nothing = None
    function_call: Nothing = None
    audio: Nothing = None
    annotations: Nothing = None


class ToolMessage(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="role", tag="tool"
):
    content: Content
    tool_call_id: str


Message = SystemMessage | DeveloperMessage | UserMessage | AssistantMessage | ToolMessage


def template_message(message: Message, path: str) -> dict[str, str]:
    """role, content (parts joined without a separator) and, where given, name, tool_call_id
    or reasoning_content. path: where the message stands, for errors.

    Raises BodyError for a part that is not text, and for an assistant's message without one.
    """
    content = message.content
    if isinstance(message, AssistantMessage) and content is None:
        content = message.refusal
    if content is None:
        raise BodyError(f"Invalid '{path}.content': the message has no content.", f"{path}.content")
    rendered = {"role": message.__struct_config__.tag, "content": _text(content, path)}
    if isinstance(message, ToolMessage):
        rendered["tool_call_id"] = message.tool_call_id
    elif message.name is not None:
        rendered["name"] = message.name
    if isinstance(message, AssistantMessage) and message.reasoning_content is not None:
        rendered["reasoning_content"] = message.reasoning_content
    return rendered  # type: ignore[return-value]


def _text(content: str | list[Part], path: str) -> str:
    if isinstance(content, str):
        return content
    texts = []
    for index, part in enumerate(content):
        if isinstance(part, TextPart):
            texts.append(part.text)
        elif isinstance(part, RefusalPart):
            texts.append(part.refusal)
        else:
            param = f"{path}.content[{index}]"
            kind = _REFUSED_PARTS[type(part)]
            raise BodyError(f"Invalid '{param}': this model takes no {kind}, only text.", param)
    return "".join(texts)
