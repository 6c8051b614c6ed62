"""Token counts of one request as OpenAI reports them."""

from __future__ import annotations

import msgspec


class PromptDetails(msgspec.Struct, frozen=True):
    cached_tokens: int = 0
    audio_tokens: int = 0


class CompletionDetails(msgspec.Struct, frozen=True):
    reasoning_tokens: int = 0
    audio_tokens: int = 0
    accepted_prediction_tokens: int = 0
    rejected_prediction_tokens: int = 0


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt counts once, however many choices are drawn from it."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails = CompletionDetails()


def make_usage(prompt: int, completion: int, cached: int, reasoning: int = 0) -> Usage:
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=prompt + completion,
        prompt_tokens_details=PromptDetails(cached),
        completion_tokens_details=CompletionDetails(reasoning),
    )
