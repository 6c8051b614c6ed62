"""The answer of `POST /v1/completions`, whole or streamed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headrace.api.openai.answer import (
    Choice,
    ChunkFrame,
    Head,
    LogprobLike,
    finite,
    printable,
)
from headrace.api.openai.usage import Usage

_encode = msgspec.json.Encoder().encode


class CompletionAnswer:
    """Implements `Answer`. echoes: what to put before each choice's text, by index; empty
    where nothing is echoed."""

    def __init__(self, head: Head, *, include_usage: bool, echoes: Sequence[str] = ()) -> None:
        self._head = head
        self._echoes = echoes
        self._offsets: dict[int, int] = {}
        self._frame = ChunkFrame(head, "text_completion", include_usage=include_usage)

    def opening(self, index: int) -> bytes:
        echo = self._echo(index)
        return self._chunk(index, echo, b"null", b"null") if echo else b""

    def delta(self, index: int, text: str, logprobs: Sequence[LogprobLike] | None) -> bytes:
        found = b"null" if logprobs is None else _encode(self._logprobs(index, logprobs))
        return self._chunk(index, text, found, b"null")

    def closing(self, index: int, finish_reason: str) -> bytes:
        return self._chunk(index, "", b"null", _encode(finish_reason))

    def usage(self, usage: Usage) -> bytes:
        return self._frame.usage(usage)

    def whole(self, choices: Sequence[Choice], usage: Usage) -> bytes:
        return _encode(
            {
                "id": self._head.id,
                "object": "text_completion",
                "created": self._head.created,
                "model": self._head.model,
                "choices": [self._choice(choice) for choice in choices],
                "usage": usage,
                "system_fingerprint": self._head.fingerprint,
            }
        )

    def _echo(self, index: int) -> str:
        return self._echoes[index] if self._echoes else ""

    def _choice(self, choice: Choice) -> dict[str, Any]:
        found = None if choice.logprobs is None else self._logprobs(choice.index, choice.logprobs)
        return {
            "text": self._echo(choice.index) + choice.text,
            "index": choice.index,
            "logprobs": found,
            "finish_reason": choice.finish_reason,
        }

    def _logprobs(self, index: int, logprobs: Sequence[LogprobLike]) -> dict[str, Any]:
        """OpenAI's older form: parallel lists, and alternatives keyed by their text.

        text_offset counts characters from the start of the choice's text.
        """
        tokens = [printable(entry.piece) for entry in logprobs]
        offset = self._offsets.get(index, len(self._echo(index)))
        offsets = []
        for token in tokens:
            offsets.append(offset)
            offset += len(token)
        self._offsets[index] = offset
        return {
            "tokens": tokens,
            "token_logprobs": [finite(entry.logprob) for entry in logprobs],
            "top_logprobs": [
                {printable(piece): finite(value) for _, value, piece in reversed(entry.top)}
                | {token: finite(entry.logprob)}
                for token, entry in zip(tokens, logprobs, strict=True)
            ],
            "text_offset": offsets,
        }

    def _chunk(self, index: int, text: str, logprobs: bytes, finish: bytes) -> bytes:
        return self._frame.choice(
            b'{"text":',
            _encode(text),
            b',"index":%d,"logprobs":' % index,
            logprobs,
            b',"finish_reason":',
            finish,
            b"}",
        )
