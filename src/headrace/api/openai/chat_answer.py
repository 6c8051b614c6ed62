"""The answer of `POST /v1/chat/completions`, whole or streamed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headrace.api.openai.answer import (
    Choice,
    ChunkFrame,
    Head,
    LogprobLike,
    TokenNames,
    finite,
    printable,
)
from headrace.api.openai.usage import Usage

_encode = msgspec.json.Encoder().encode


class ChatAnswer:
    """Implements `Answer`."""

    def __init__(self, head: Head, *, include_usage: bool, names: TokenNames) -> None:
        self._head = head
        self._names = names
        self._frame = ChunkFrame(head, "chat.completion.chunk", include_usage=include_usage)

    def opening(self, index: int, prompt_logprobs: Sequence[LogprobLike] | None) -> bytes:
        delta = b'{"role":"assistant","content":"","refusal":null}'
        return self._chunk(index, delta, b"null", b"null")

    def delta(
        self,
        index: int,
        text: str,
        logprobs: Sequence[LogprobLike] | None,
        reasoning: str = "",
    ) -> bytes:
        found = b"null" if logprobs is None else _encode(self._logprobs(logprobs))
        if not reasoning:
            delta = b'{"content":%b}' % _encode(text)
        elif not text:
            delta = b'{"reasoning_content":%b}' % _encode(reasoning)
        else:
            delta = _encode({"reasoning_content": reasoning, "content": text})
        return self._chunk(index, delta, found, b"null")

    def closing(self, index: int, finish_reason: str) -> bytes:
        return self._chunk(index, b"{}", b"null", _encode(finish_reason))

    def usage(self, usage: Usage) -> bytes:
        return self._frame.usage(usage)

    def whole(self, choices: Sequence[Choice], usage: Usage) -> bytes:
        return _encode(
            {
                "id": self._head.id,
                "object": "chat.completion",
                "created": self._head.created,
                "model": self._head.model,
                "choices": [self._choice(choice) for choice in choices],
                "usage": usage,
                "service_tier": "default",
                "system_fingerprint": self._head.fingerprint,
            }
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

    def _choice(self, choice: Choice) -> dict[str, Any]:
        message = {"role": "assistant", "content": choice.text, "refusal": None}
        if choice.reasoning:
            message["reasoning_content"] = choice.reasoning
        return {
            "index": choice.index,
            "message": message,
            "logprobs": None if choice.logprobs is None else self._logprobs(choice.logprobs),
            "finish_reason": choice.finish_reason,
        }

    def _logprobs(self, logprobs: Sequence[LogprobLike]) -> dict[str, Any]:
        """OpenAI's `logprobs` object of a chat choice."""
        content = [
            {
                **self._token(entry.token, entry.logprob, entry.piece),
                "top_logprobs": [self._token(*other) for other in entry.top],
            }
            for entry in logprobs
        ]
        return {"content": content, "refusal": None}

    def _token(self, token: int, logprob: float | None, piece: bytes) -> dict[str, Any]:
        """bytes is null for a token that stands for none."""
        text = printable(token, piece, self._names)
        return {"token": text, "logprob": finite(logprob), "bytes": list(piece) or None}
