"""The messages of a chat, as OpenAI's clients write them, and as a template reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from headrace.api.body import BodyError

UNSUPPORTED_IN_MESSAGE = re.compile(
    r"messages\[\d+\]\.(?:function_call|audio|annotations)(?![^\[.])"
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
AssistantContent = str | list[Part]

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


class CalledFunction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """arguments: the JSON text of an object."""

    name: str
    arguments: str


class ToolCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """index: as deltas have it; of no meaning here."""

    id: Annotated[str, Meta(min_length=1)]
    function: CalledFunction
    type: Literal["function"] = "function"
    index: int | None = None


class AssistantMessage(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="role", tag="assistant"
):
    """content may be absent, or empty, only where a refusal or calls stand in its place.
    reasoning_content: its thoughts, as an answer of ours gave them; the template decides what
    becomes of them."""

    content: AssistantContent | None = None
    reasoning_content: str | None = None
    refusal: str | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    function_call: Nothing = None
    audio: Nothing = None
    annotations: Nothing = None


class ToolMessage(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="role", tag="tool"
):
    content: Content
    tool_call_id: str


Message = SystemMessage | DeveloperMessage | UserMessage | AssistantMessage | ToolMessage


def template_message(message: Message, path: str, names: Mapping[str, str]) -> dict[str, Any]:
    """role, content (parts joined without a separator, "" beside calls alone) and, where given,
    name, tool_call_id, reasoning_content and tool_calls, whose arguments are objects, as
    templates expect them. path: where the message stands, for errors. names: of functions, by
    the ids of calls; a result has its function's.

    Raises BodyError for a part that is not text, for an assistant's message without content and
    calls, and for arguments that are no JSON object.
    """
    content = message.content
    calls = (message.tool_calls or []) if isinstance(message, AssistantMessage) else []
    if isinstance(message, AssistantMessage) and content is None:
        content = message.refusal
    if not calls and (content is None or content == []):
        raise BodyError(f"Invalid '{path}.content': the message has no content.", f"{path}.content")
    rendered: dict[str, Any] = {
        "role": message.__struct_config__.tag,
        "content": _text(content or "", path),
    }
    if isinstance(message, ToolMessage):
        rendered["tool_call_id"] = message.tool_call_id
        rendered["name"] = names[message.tool_call_id]
    elif message.name is not None:
        rendered["name"] = message.name
    if isinstance(message, AssistantMessage) and message.reasoning_content is not None:
        rendered["reasoning_content"] = message.reasoning_content
    if calls:
        rendered["tool_calls"] = [
            _call(call, f"{path}.tool_calls[{index}]") for index, call in enumerate(calls)
        ]
    return rendered


def called_functions(messages: Sequence[Message]) -> dict[str, str]:
    """Names of the functions called, by the calls' ids. Raises BodyError for a result that is
    of no call before it."""
    known: dict[str, str] = {}
    for index, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            calls = {call.id: call.function.name for call in message.tool_calls or ()}
            if len(calls) < len(message.tool_calls or ()):
                param = f"messages[{index}].tool_calls"
                raise BodyError(f"Invalid '{param}': two calls have the same id.", param)
            known.update(calls)
        elif isinstance(message, ToolMessage) and message.tool_call_id not in known:
            param = f"messages[{index}].tool_call_id"
            raise BodyError(
                f"Invalid '{param}': no assistant's message before it has a call of that id.", param
            )
    return known


def _call(call: ToolCall, path: str) -> dict[str, Any]:
    param = f"{path}.function.arguments"
    try:
        arguments = msgspec.json.decode(call.function.arguments or "{}", type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        raise BodyError(f"Invalid '{param}': it is not the text of a JSON object.", param) from None
    return {
        "id": call.id,
        "type": call.type,
        "function": {"name": call.function.name, "arguments": arguments},
    }


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
