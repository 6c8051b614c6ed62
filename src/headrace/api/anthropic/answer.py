"""The answer of `POST /v1/messages`, whole or streamed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from headrace.api import sse
from headrace.api.anthropic.message import (
    STOP_REASONS,
    AnsweredBlock,
    AnsweredText,
    AnsweredThinking,
    AnsweredToolUse,
    BlockStart,
    BlockStop,
    MessageBody,
    MessageDelta,
    MessageStart,
    MessagesTier,
    MessageStop,
    MessagesUsage,
    OutputDetails,
    Stopped,
)
from headrace.api.openai.answer import Call, CallDeltaLike, Choice, Head, LogprobLike
from headrace.api.openai.service_tier import AnsweredTier
from headrace.api.openai.usage import Usage, make_usage

_encode = msgspec.json.Encoder().encode
_TIERS: dict[AnsweredTier, MessagesTier] = {
    "priority": "priority",
    "default": "standard",
    "flex": "batch",
}
_END = sse.named("message_stop", _encode(MessageStop()))


class MessageAnswer:
    """Implements `Answer`, of one choice. A stream's blocks come one after the other: each ends
    where the next begins, or with the choice."""

    def __init__(self, head: Head, prompt_tokens: int) -> None:
        self._head = head
        self._prompt_tokens = prompt_tokens
        self._block = -1  # index of the one that is open, or was last
        self._kind = ""  # of the one that is open
        self._stopped = Stopped(STOP_REASONS["stop"], None)

    def beginning(self) -> bytes:
        usage = make_usage(self._prompt_tokens, 0, 0)
        return _event(MessageStart(self._message([], None, None, usage)))

    def opening(self, index: int, prompt_logprobs: Sequence[LogprobLike] | None) -> bytes:
        return b""

    def delta(
        self,
        index: int,
        text: str,
        logprobs: Sequence[LogprobLike] | None,
        reasoning: str = "",
        calls: Sequence[CallDeltaLike] = (),
    ) -> bytes:
        events = self._thought(reasoning) if reasoning else b""
        for piece in _in_order(text, calls):
            events += self._text(piece) if isinstance(piece, str) else self._call(piece)
        return events

    def closing(self, index: int, finish_reason: str, stop: str | None = None) -> bytes:
        self._stopped = _stopped(finish_reason, stop)
        return self._close()

    def ending(self, usage: Usage) -> bytes:
        return _event(MessageDelta(self._stopped, self._usage(usage))) + _END

    def whole(self, choices: Sequence[Choice], usage: Usage) -> bytes:
        (choice,) = choices
        stopped = _stopped(choice.finish_reason, choice.stop)
        content = [*_thoughts(choice), *map(_block, _in_order(choice.text, choice.calls))]
        return _encode(self._message(content, stopped.stop_reason, stopped.stop_sequence, usage))

    def _message(
        self,
        content: list[AnsweredBlock],
        stop_reason: str | None,
        stop_sequence: str | None,
        usage: Usage,
    ) -> MessageBody:
        return MessageBody(
            id=self._head.id,
            model=self._head.model,
            content=content,
            stop_reason=stop_reason,
            stop_sequence=stop_sequence,
            usage=self._usage(usage),
        )

    def _usage(self, usage: Usage) -> MessagesUsage:
        cached = usage.prompt_tokens_details.cached_tokens
        return MessagesUsage(
            input_tokens=usage.prompt_tokens - cached,
            cache_read_input_tokens=cached,
            output_tokens=usage.completion_tokens,
            output_tokens_details=OutputDetails(usage.completion_tokens_details.reasoning_tokens),
            service_tier=_TIERS[self._head.service_tier],
        )

    def _thought(self, text: str) -> bytes:
        return self._begun("thinking", AnsweredThinking("")) + self._piece(
            b"thinking_delta", b"thinking", text
        )

    def _text(self, text: str) -> bytes:
        return self._begun("text", AnsweredText("")) + self._piece(b"text_delta", b"text", text)

    def _call(self, call: CallDeltaLike) -> bytes:
        events = b""
        if call.id is not None:
            events = self._close()
            events += self._begun("tool_use", AnsweredToolUse(call.id, call.name or "", {}))
        if call.arguments:
            events += self._piece(b"input_json_delta", b"partial_json", call.arguments)
        return events

    def _begun(self, kind: str, block: AnsweredBlock) -> bytes:
        """What opens a block, if none of its kind is open."""
        if self._kind == kind:
            return b""
        events = self._close()
        self._kind = kind
        self._block += 1
        return events + _event(BlockStart(self._block, block))

    def _close(self) -> bytes:
        if not self._kind:
            return b""
        events = self._piece(b"signature_delta", b"signature", "") * (self._kind == "thinking")
        self._kind = ""
        return events + _event(BlockStop(self._block))

    def _piece(self, kind: bytes, field: bytes, text: str) -> bytes:
        return (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,'
            b'"delta":{"type":"%b","%b":%b}}\n\n' % (self._block, kind, field, _encode(text))
        )


def _in_order(text: str, calls: Sequence[Any]) -> Iterator[Any]:
    """Pieces of the text, none empty, and between them the calls where they stand."""
    start = 0
    for call in calls:
        if piece := text[start : call.at]:
            yield piece
        start = max(start, call.at)
        yield call
    if piece := text[start:]:
        yield piece


def _thoughts(choice: Choice) -> list[AnsweredBlock]:
    return [AnsweredThinking(choice.reasoning)] if choice.reasoning else []


def _block(piece: str | Call) -> AnsweredBlock:
    if isinstance(piece, str):
        return AnsweredText(piece)
    return AnsweredToolUse(piece.id, piece.name, _input("".join(piece.arguments)))


def _input(arguments: str) -> dict[str, Any]:
    """Of a call that a limit or a stop cut short, nothing: it can't be told as an object."""
    try:
        return msgspec.json.decode(arguments, type=dict[str, Any])
    except msgspec.DecodeError:
        return {}


def _stopped(finish_reason: str, stop: str | None) -> Stopped:
    if stop is not None:
        return Stopped("stop_sequence", stop)
    return Stopped(STOP_REASONS[finish_reason], None)


def _event(data: msgspec.Struct) -> bytes:
    return sse.named(str(data.__struct_config__.tag), _encode(data))
