"""What `POST /v1/messages` answers, as data: whole, and as the events of a stream.

Events are written as bytes (`MessageAnswer`); tests hold them to these shapes.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
"""By why a text ended. One that ended with a text of the caller's is `stop_sequence`."""

StopReason = Annotated[
    str, Meta(extra_json_schema={"enum": [*STOP_REASONS.values(), "stop_sequence"]})
]
Tokens = Annotated[int, Meta(ge=0)]
MessagesTier = Literal["standard", "priority", "batch"]


class AnsweredText(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    text: str


class AnsweredThinking(msgspec.Struct, frozen=True, tag_field="type", tag="thinking"):
    """signature: always empty; thoughts are accepted back as they are."""

    thinking: str
    signature: str = ""


class AnsweredToolUse(msgspec.Struct, frozen=True, tag_field="type", tag="tool_use"):
    """input: empty in a stream, whose deltas tell it."""

    id: str
    name: str
    input: dict[str, Any]


AnsweredBlock = AnsweredText | AnsweredThinking | AnsweredToolUse


class OutputDetails(msgspec.Struct, frozen=True):
    thinking_tokens: Tokens


class MessagesUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The prompt's tokens are the sum of three: those that were computed (input_tokens), taken
    over from the cache (cache_read_input_tokens), or computed for it at a price of their own
    (always 0, there is none)."""

    input_tokens: Tokens
    cache_creation_input_tokens: Tokens = 0
    cache_read_input_tokens: Tokens
    output_tokens: Tokens
    output_tokens_details: OutputDetails
    service_tier: MessagesTier


class MessageBody(msgspec.Struct, frozen=True, kw_only=True):
    """stop_reason: null where a stream begins. stop_sequence: which one ended it."""

    id: str
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    model: str
    content: list[AnsweredBlock]
    stop_reason: StopReason | None
    stop_sequence: str | None
    usage: MessagesUsage


class MessageStart(msgspec.Struct, frozen=True, tag_field="type", tag="message_start"):
    """Its usage counts the whole prompt as computed; `message_delta` knows better."""

    message: MessageBody


class BlockStart(msgspec.Struct, frozen=True, tag_field="type", tag="content_block_start"):
    index: int
    content_block: AnsweredBlock


class TextDelta(msgspec.Struct, frozen=True, tag_field="type", tag="text_delta"):
    text: str


class ThinkingDelta(msgspec.Struct, frozen=True, tag_field="type", tag="thinking_delta"):
    thinking: str


class SignatureDelta(msgspec.Struct, frozen=True, tag_field="type", tag="signature_delta"):
    signature: str


class InputDelta(msgspec.Struct, frozen=True, tag_field="type", tag="input_json_delta"):
    """A piece of the input's JSON text."""

    partial_json: str


class BlockDelta(msgspec.Struct, frozen=True, tag_field="type", tag="content_block_delta"):
    index: int
    delta: TextDelta | ThinkingDelta | SignatureDelta | InputDelta


class BlockStop(msgspec.Struct, frozen=True, tag_field="type", tag="content_block_stop"):
    index: int


class Stopped(msgspec.Struct, frozen=True):
    stop_reason: StopReason
    stop_sequence: str | None


class MessageDelta(msgspec.Struct, frozen=True, tag_field="type", tag="message_delta"):
    delta: Stopped
    usage: MessagesUsage


class MessageStop(msgspec.Struct, frozen=True, tag_field="type", tag="message_stop"):
    pass


class Ping(msgspec.Struct, frozen=True, tag_field="type", tag="ping"):
    pass


Event = MessageStart | BlockStart | BlockDelta | BlockStop | MessageDelta | MessageStop | Ping


class TokenCount(msgspec.Struct, frozen=True):
    """What `POST /v1/messages/count_tokens` answers: all of a prompt, cached or not."""

    input_tokens: Tokens
