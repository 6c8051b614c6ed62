"""The messages of a chat, as OpenAI's clients write them, and as a template reads them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from headrace.api.body import BodyError
from headrace.api.cache_control import CacheControl
from headrace.api.empty import Empty

UNSUPPORTED_IN_MESSAGE = re.compile(r"messages\[\d+\]\.(?:function_call|audio)(?![^\[.])")
"""Paths of fields that OpenAI gives a meaning which this server does not honour."""


class CacheBreakpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """OpenAI's mark of where a cached prompt may end. Every prompt is cached as far as there is
    room, so it changes nothing."""

    mode: Literal["explicit"] = "explicit"


class TextPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="text"):
    """cache_control, prompt_cache_breakpoint: checked; they change nothing."""

    text: str
    cache_control: CacheControl | None = None
    prompt_cache_breakpoint: CacheBreakpoint | None = None


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


class _Returned(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields of any message that clients add or send back, and that change nothing. id: of the
    message in the client's own store. cache_control: Anthropic's, as LiteLLM passes it on."""

    id: str | None = None
    cache_control: CacheControl | None = None


class _Instruction(_Returned, frozen=True, kw_only=True, tag_field="role"):
    content: Content
    name: str | None = None


class SystemMessage(_Instruction, frozen=True, tag="system"):
    pass


class DeveloperMessage(_Instruction, frozen=True, tag="developer"):
    pass


class UserMessage(_Instruction, frozen=True, tag="user"):
    pass


class CalledFunction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """arguments: the JSON text of an object, or what there is of it. parsed_arguments: OpenAI's
    client sends them back beside the text that it read them from. provider_specific_fields:
    LiteLLM's, which no template reads."""

    name: str
    arguments: str
    parsed_arguments: Any = None
    provider_specific_fields: Any = None


class ToolCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """index: as deltas have it; it changes nothing. provider_specific_fields: LiteLLM's, which no
    template reads."""

    id: Annotated[str, Meta(min_length=1)]
    function: CalledFunction
    type: Literal["function"] = "function"
    index: int | None = None
    provider_specific_fields: Any = None


class ReasoningDetail(msgspec.Struct, frozen=True):
    """One piece of thoughts in OpenRouter's shape. Other fields tell how it was made."""

    text: str | None = None
    summary: str | None = None


class LitellmThought(msgspec.Struct, frozen=True):
    """One piece of thoughts in the shape that LiteLLM takes over from Anthropic."""

    thinking: str | None = None


class AssistantMessage(_Returned, frozen=True, kw_only=True, tag_field="role", tag="assistant"):
    """content may be absent, or empty, only where a refusal or calls stand in its place.
    reasoning_content: its thoughts; the template decides what becomes of them. reasoning,
    reasoning_details, thinking_blocks: the same under the names of vLLM, OpenRouter and LiteLLM.
    parsed: OpenAI's client sends it back beside the content that it read it from. annotations,
    provider_specific_fields: sent back with an answer; they are no part of what it says."""

    content: AssistantContent | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[ReasoningDetail] | None = None
    thinking_blocks: list[LitellmThought] | None = None
    refusal: str | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    function_call: Empty = None
    audio: Empty = None
    annotations: list[Any] | None = None
    parsed: Any = None
    provider_specific_fields: Any = None

    @property
    def thoughts(self) -> str | None:
        """By the first of the fields that has them."""
        for given in (self.reasoning_content, self.reasoning):
            if given is not None:
                return given
        details = "".join(d.text or d.summary or "" for d in self.reasoning_details or ())
        return details or "".join(b.thinking or "" for b in self.thinking_blocks or ()) or None


class ToolMessage(_Returned, frozen=True, kw_only=True, tag_field="role", tag="tool"):
    """name: of the function; else it is taken from the call."""

    content: Content
    tool_call_id: str
    name: str | None = None


Message = SystemMessage | DeveloperMessage | UserMessage | AssistantMessage | ToolMessage


def template_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The messages as a template reads them. Results of calls that follow each other stand in the
    order of their calls, since some templates show no ids.

    Raises BodyError as `template_message`, and where calls and results do not belong together.
    """
    names = _called_functions(messages)
    rendered: list[dict[str, Any]] = []
    order: dict[str, int] = {}
    for results, group in groupby(enumerate(messages), lambda pair: _is_result(pair[1])):
        placed = list(group)
        if results:
            placed.sort(key=lambda pair: order.get(_call_id(pair[1]), len(order)))
        for index, message in placed:
            rendered.append(template_message(message, f"messages[{index}]", names.get(index)))
            if isinstance(message, AssistantMessage):
                order = {call.id: at for at, call in enumerate(message.tool_calls or ())}
    return rendered


def template_message(message: Message, path: str, function: str | None = None) -> dict[str, Any]:
    """role, content (parts joined without a separator, "" beside calls alone) and, where given,
    name, tool_call_id, reasoning_content and tool_calls. A call's arguments are an object, as
    templates expect them, or the text as it stands where that is no JSON object. path: where the
    message stands, for errors. function: the name of what a result is of.

    Raises BodyError for a part that is not text, for an assistant's message without content and
    calls, and for thoughts that are given twice and differ.
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
        rendered["name"] = function if message.name is None else message.name
    elif message.name is not None:
        rendered["name"] = message.name
    if isinstance(message, AssistantMessage) and message.thoughts is not None:
        if message.reasoning not in (None, message.thoughts):
            param = f"{path}.reasoning"
            raise BodyError(f"Invalid '{param}': it differs from 'reasoning_content'.", param)
        rendered["reasoning_content"] = message.thoughts
    if calls:
        rendered["tool_calls"] = [_call(call) for call in calls]
    return rendered


def _is_result(message: Message) -> bool:
    return isinstance(message, ToolMessage)


def _call_id(message: Message) -> str:
    return message.tool_call_id if isinstance(message, ToolMessage) else ""


def _called_functions(messages: Sequence[Message]) -> dict[int, str]:
    """By the index of each result, the name of the function it is of: that of the last call
    before it with its id. Raises BodyError for a result that is of no call before it."""
    known: dict[str, str] = {}
    found: dict[int, str] = {}
    for index, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            calls = {call.id: call.function.name for call in message.tool_calls or ()}
            if len(calls) < len(message.tool_calls or ()):
                param = f"messages[{index}].tool_calls"
                raise BodyError(f"Invalid '{param}': two calls have the same id.", param)
            known.update(calls)
        elif isinstance(message, ToolMessage):
            if message.tool_call_id not in known:
                param = f"messages[{index}].tool_call_id"
                raise BodyError(
                    f"Invalid '{param}': no assistant's message before it has a call of that id.",
                    param,
                )
            found[index] = known[message.tool_call_id]
    return found


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.function.name, "arguments": _arguments(call.function.arguments)}
    return {"id": call.id, "type": call.type, "function": function}


def _arguments(text: str) -> dict[str, Any] | str:
    """The object that the text is the JSON of; an empty one for a blank text and for null. Any
    other text, such as that of a call which was cut off, stands for itself."""
    try:
        found = msgspec.json.decode(text if text.strip() else "{}")
    except (msgspec.DecodeError, RecursionError):
        return text
    if found is None:
        return {}
    return found if isinstance(found, dict) else text


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
