"""What `POST /v1/chat/completions` answers, as data: whole, and as the chunks of a stream.

Chunks are written as bytes, one for each token of every stream (`ChatAnswer`); tests hold them to
these shapes. What is UNSET is left out.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from headrace.api.openai.service_tier import AnsweredTier
from headrace.api.openai.usage import Usage

FinishReason = Annotated[str, Meta(extra_json_schema={"enum": ["stop", "length", "tool_calls"]})]


class ChatToken(msgspec.Struct, frozen=True):
    """bytes: null for a token that stands for none."""

    token: str
    logprob: float | None
    bytes: list[int] | None


class ChatTokenLogprob(ChatToken, frozen=True):
    top_logprobs: list[ChatToken]


class ChatLogprobs(msgspec.Struct, frozen=True):
    content: list[ChatTokenLogprob]
    refusal: None = None


class FunctionCall(msgspec.Struct, frozen=True):
    """arguments: the text of a JSON object."""

    name: str
    arguments: str


class MessageToolCall(msgspec.Struct, frozen=True):
    id: str
    function: FunctionCall
    type: Literal["function"] = "function"


class AnswerMessage(msgspec.Struct, frozen=True, kw_only=True):
    """content: null only beside calls. reasoning_content: the thoughts before it."""

    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: None = None
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[MessageToolCall] | UnsetType = UNSET


class ChatChoice(msgspec.Struct, frozen=True):
    index: int
    message: AnswerMessage
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason


class ChatCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """created: unix seconds."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage
    service_tier: AnsweredTier
    system_fingerprint: str


class FunctionCallDelta(msgspec.Struct, frozen=True):
    """name: with the first delta of a call. arguments: their next piece."""

    arguments: str
    name: str | UnsetType = UNSET


class ToolCallDelta(msgspec.Struct, frozen=True, kw_only=True):
    """id and type come with the first delta of a call."""

    index: int
    id: str | UnsetType = UNSET
    type: Literal["function"] | UnsetType = UNSET
    function: FunctionCallDelta


class MessageDelta(msgspec.Struct, frozen=True, kw_only=True):
    """role and refusal come with a choice's first chunk."""

    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType | None = UNSET
    refusal: UnsetType | None = UNSET
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[ToolCallDelta] | UnsetType = UNSET


class ChatChunkChoice(msgspec.Struct, frozen=True):
    """finish_reason: in its last chunk."""

    index: int
    delta: MessageDelta
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason | None


class ChatCompletionChunk(msgspec.Struct, frozen=True, kw_only=True):
    """usage: where it is asked for; null but in the last chunk, which has no choices."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: Usage | UnsetType | None = UNSET
    service_tier: AnsweredTier
    system_fingerprint: str
