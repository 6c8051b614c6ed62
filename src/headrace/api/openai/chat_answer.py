"""The answer of `POST /v1/chat/completions`, whole or streamed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from headrace.api.openai.answer import (
    Call,
    CallDeltaLike,
    Choice,
    ChunkFrame,
    Head,
    LogprobLike,
    TokenNames,
    finite,
    printable,
)
from headrace.api.openai.chat_completion import (
    AnswerMessage,
    ChatChoice,
    ChatCompletion,
    ChatLogprobs,
    ChatToken,
    ChatTokenLogprob,
    FunctionCall,
    MessageToolCall,
)
from headrace.api.openai.usage import Usage

_encode = msgspec.json.Encoder().encode


class ChatAnswer:
    """Implements `Answer`. may_call: there are functions that the answer may call, so it may
    have no content."""

    def __init__(
        self, head: Head, *, include_usage: bool, names: TokenNames, may_call: bool = False
    ) -> None:
        self._head = head
        self._names = names
        self._may_call = may_call
        self._frame = ChunkFrame(head, "chat.completion.chunk", include_usage=include_usage)

    def beginning(self) -> bytes:
        return b""

    def opening(self, index: int, prompt_logprobs: Sequence[LogprobLike] | None) -> bytes:
        content = b"null" if self._may_call else b'""'
        delta = b'{"role":"assistant","content":%b,"refusal":null}' % content
        return self._chunk(index, delta, b"null", b"null")

    def delta(
        self,
        index: int,
        text: str,
        logprobs: Sequence[LogprobLike] | None,
        reasoning: str = "",
        calls: Sequence[CallDeltaLike] = (),
    ) -> bytes:
        found = b"null" if logprobs is None else _encode(self._logprobs(logprobs))
        if not (reasoning or calls or self._may_call):
            delta = b'{"content":%b}' % _encode(text)
        else:
            fields = {
                "reasoning_content": reasoning,
                "content": text,
                "tool_calls": [_call_delta(call) for call in calls],
            }
            delta = _encode({name: value for name, value in fields.items() if value})
        return self._chunk(index, delta, found, b"null")

    def closing(self, index: int, finish_reason: str, stop: str | None = None) -> bytes:
        return self._chunk(index, b"{}", b"null", _encode(finish_reason))

    def ending(self, usage: Usage) -> bytes:
        return self._frame.ending(usage)

    def whole(self, choices: Sequence[Choice], usage: Usage) -> bytes:
        return _encode(
            ChatCompletion(
                id=self._head.id,
                created=self._head.created,
                model=self._head.model,
                choices=[self._choice(choice) for choice in choices],
                usage=usage,
                service_tier=self._head.service_tier,
                system_fingerprint=self._head.fingerprint,
            )
        )

    def _chunk(self, index: int, delta: bytes, logprobs: bytes, finish: bytes) -> bytes:
        return self._frame.choice(
            b'{"index":%d,"delta":' % index,
            delta,
            b',"logprobs":',
            logprobs,
            b',"finish_reason":',
            finish,
            b"}",
        )

    def _choice(self, choice: Choice) -> ChatChoice:
        message = AnswerMessage(
            content=choice.text if choice.text or not choice.calls else None,
            reasoning_content=choice.reasoning or UNSET,
            tool_calls=[_call(call) for call in choice.calls] or UNSET,
        )
        logprobs = None if choice.logprobs is None else self._logprobs(choice.logprobs)
        return ChatChoice(choice.index, message, logprobs, choice.finish_reason)

    def _logprobs(self, logprobs: Sequence[LogprobLike]) -> ChatLogprobs:
        return ChatLogprobs(
            [
                ChatTokenLogprob(
                    *self._token(entry.token, entry.logprob, entry.piece),
                    [ChatToken(*self._token(*other)) for other in entry.top],
                )
                for entry in logprobs
            ]
        )

    def _token(
        self, token: int, logprob: float | None, piece: bytes
    ) -> tuple[str, float | None, list[int] | None]:
        return printable(token, piece, self._names), finite(logprob), list(piece) or None


def _call(call: Call) -> MessageToolCall:
    return MessageToolCall(call.id, FunctionCall(call.name, "".join(call.arguments)))


def _call_delta(call: CallDeltaLike) -> dict[str, Any]:
    """id, type and name come once, with the first delta of a call."""
    if call.id is None:
        return {"index": call.index, "function": {"arguments": call.arguments}}
    function = {"name": call.name, "arguments": call.arguments}
    return {"index": call.index, "id": call.id, "type": "function", "function": function}
