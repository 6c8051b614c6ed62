"""What `POST /v1/completions` answers, as data: whole, and as the chunks of a stream.

Chunks are written as bytes (`CompletionAnswer`); tests hold them to these shapes.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from headrace.api.openai.service_tier import AnsweredTier
from headrace.api.openai.usage import Usage

FinishReason = Annotated[str, Meta(extra_json_schema={"enum": ["stop", "length"]})]


class TextLogprobs(msgspec.Struct, frozen=True):
    """Parallel lists. top_logprobs: by the alternatives' texts; null where none were asked for.
    text_offset: characters. Nothing predicts a prompt's first token, so its logprob and its
    alternatives are null."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float | None] | None] | None
    text_offset: list[int]

    def joined(self, other: TextLogprobs) -> TextLogprobs:
        """Two runs of tokens as one."""
        tops = None
        if self.top_logprobs is not None and other.top_logprobs is not None:
            tops = self.top_logprobs + other.top_logprobs
        return TextLogprobs(
            self.tokens + other.tokens,
            self.token_logprobs + other.token_logprobs,
            tops,
            self.text_offset + other.text_offset,
        )


class TextChoice(msgspec.Struct, frozen=True):
    text: str
    index: int
    logprobs: TextLogprobs | None
    finish_reason: FinishReason


class TextCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """created: unix seconds."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[TextChoice]
    usage: Usage
    service_tier: AnsweredTier
    system_fingerprint: str


class TextChunkChoice(msgspec.Struct, frozen=True):
    """finish_reason: in its last chunk."""

    text: str
    index: int
    logprobs: TextLogprobs | None
    finish_reason: FinishReason | None


class TextCompletionChunk(msgspec.Struct, frozen=True, kw_only=True):
    """usage: where it is asked for; null but in the last chunk, which has no choices."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[TextChunkChoice]
    usage: Usage | UnsetType | None = UNSET
    service_tier: AnsweredTier
    system_fingerprint: str
