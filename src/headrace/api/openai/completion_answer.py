"""The answer of `POST /v1/completions`, whole or streamed."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Sequence

import msgspec

from headrace.api.openai.answer import (
    CallDeltaLike,
    Choice,
    ChunkFrame,
    Head,
    LogprobLike,
    TokenNames,
    finite,
    printable,
)
from headrace.api.openai.text_completion import TextChoice, TextCompletion, TextLogprobs
from headrace.api.openai.usage import Usage

_encode = msgspec.json.Encoder().encode


class TextOffsets:
    """Where each token begins in a text, in characters. One that begins within a character
    counts from that character."""

    def __init__(self, start: int = 0) -> None:
        self.end = start
        self._decoder = getincrementaldecoder("utf-8")(errors="replace")

    def take(self, piece: bytes) -> int:
        begin = self.end
        self.end += len(self._decoder.decode(piece))
        return begin


class CompletionAnswer:
    """Implements `Answer`. echoes: the text before each choice's own, by index; empty where
    nothing is echoed. alternatives: whether logprobs have alternatives beside them."""

    def __init__(
        self,
        head: Head,
        *,
        include_usage: bool,
        names: TokenNames,
        echoes: Sequence[str] = (),
        alternatives: bool = False,
    ) -> None:
        self._head = head
        self._names = names
        self._echoes = echoes
        self._alternatives_asked = alternatives
        self._offsets: dict[int, TextOffsets] = {}
        self._frame = ChunkFrame(head, "text_completion", include_usage=include_usage)

    def beginning(self) -> bytes:
        return b""

    def opening(self, index: int, prompt_logprobs: Sequence[LogprobLike] | None) -> bytes:
        echo = self._echo(index)
        if prompt_logprobs is None:
            return self._chunk(index, echo, b"null", b"null") if echo else b""
        found = _encode(self._echoed_logprobs(index, prompt_logprobs))
        return self._chunk(index, echo, found, b"null")

    def delta(
        self,
        index: int,
        text: str,
        logprobs: Sequence[LogprobLike] | None,
        reasoning: str = "",
        calls: Sequence[CallDeltaLike] = (),
    ) -> bytes:
        assert not reasoning, "texts are continued, and thoughts are part of that"
        assert not calls, "texts have no functions to call"
        found = b"null" if logprobs is None else _encode(self._logprobs(index, logprobs))
        return self._chunk(index, text, found, b"null")

    def closing(self, index: int, finish_reason: str, stop: str | None = None) -> bytes:
        return self._chunk(index, "", b"null", _encode(finish_reason))

    def ending(self, usage: Usage) -> bytes:
        return self._frame.ending(usage)

    def whole(self, choices: Sequence[Choice], usage: Usage) -> bytes:
        return _encode(
            TextCompletion(
                id=self._head.id,
                created=self._head.created,
                model=self._head.model,
                choices=[self._choice(choice) for choice in choices],
                usage=usage,
                service_tier=self._head.service_tier,
                system_fingerprint=self._head.fingerprint,
            )
        )

    def _echo(self, index: int) -> str:
        return self._echoes[index] if self._echoes else ""

    def _choice(self, choice: Choice) -> TextChoice:
        found = None if choice.logprobs is None else self._logprobs(choice.index, choice.logprobs)
        if choice.prompt_logprobs is not None:
            echoed = self._echoed_logprobs(choice.index, choice.prompt_logprobs)
            found = echoed if found is None else echoed.joined(found)
        text = self._echo(choice.index) + choice.text
        return TextChoice(text, choice.index, found, choice.finish_reason)

    def _logprobs(self, index: int, logprobs: Sequence[LogprobLike]) -> TextLogprobs:
        """Of a choice's next tokens. text_offset counts from the start of the choice's text."""
        offsets = self._offsets.setdefault(index, TextOffsets(len(self._echo(index))))
        return self._lists(logprobs, [offsets.take(entry.piece) for entry in logprobs])

    def _echoed_logprobs(self, index: int, logprobs: Sequence[LogprobLike]) -> TextLogprobs:
        """Of the prompt's tokens. A vocabulary may have put a space before the text; offsets
        count in the text as it was given."""
        offsets = TextOffsets()
        begins = [offsets.take(entry.piece) for entry in logprobs]
        added = offsets.end - len(self._echo(index))
        return self._lists(logprobs, [max(begin - added, 0) for begin in begins])

    def _lists(self, logprobs: Sequence[LogprobLike], offsets: list[int]) -> TextLogprobs:
        """OpenAI's older form: parallel lists, and alternatives keyed by their text."""
        tops = [self._alternatives(entry) for entry in logprobs]
        return TextLogprobs(
            [printable(entry.token, entry.piece, self._names) for entry in logprobs],
            [finite(entry.logprob) for entry in logprobs],
            tops if self._alternatives_asked else None,
            offsets,
        )

    def _alternatives(self, entry: LogprobLike) -> dict[str, float | None] | None:
        """The likeliest tokens, and the one that came if it is not among them."""
        if entry.logprob is None:
            return None
        found = {
            printable(token, piece, self._names): finite(value)
            for token, value, piece in reversed(entry.top)
        }
        return found | {printable(entry.token, entry.piece, self._names): finite(entry.logprob)}

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
