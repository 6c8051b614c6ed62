"""What the engine answers: pieces of a generation, then how it ended."""

from __future__ import annotations

from typing import Literal

import msgspec

FinishReason = Literal["stop", "length", "cancelled", "error", "refused"]


class TokenLogprob(msgspec.Struct, frozen=True, gc=False):
    """A token with its log-probability and the most likely alternatives.

    logprob: None for the first token of a prompt, which nothing predicted. piece:
    the token's own bytes (may be part of a character). top: (id, logprob, piece).
    """

    token: int
    logprob: float | None
    piece: bytes
    top: list[tuple[int, float, bytes]]


class Prefilled(msgspec.Struct, frozen=True, gc=False):
    """How much of a prompt is in the KV cache. tokens: of the prompt that were computed or taken
    from the prefix cache so far. cached: those of them that came from the prefix cache."""

    tokens: int
    cached: int


class Finish(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How a generation ended, and what it cost.

    prompt_tokens: of the prompt, all if the reason is "stop" or "length"; else those that had been
    computed or taken from the prefix cache. completion_tokens counts every token that was generated
    for the caller, the one that ended it included (end-of-sequence or the last of a stop text);
    reasoning_tokens of them were spent on thoughts. cached_tokens: the part of the prompt that came
    from the prefix cache.
    matched: the stop text or stop id that ended it. error: a sentence for the caller if reason
    is "error", which is our fault, or "refused", which is the request's.
    """

    reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    matched: str | int | None = None
    error: str | None = None


class Output(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Progress of one request since its last Output. The last one carries `finish`.

    text: finished characters only, stop texts removed. reasoning: thoughts, which all come before
    the text. tokens: ids generated (they may run
    ahead of text that is held back). reasoning_tokens: how many of its tokens, from the first on,
    were spent on thoughts. prefilled: how far its prompt is, if that has changed; an Output may
    hold nothing else. logprobs: parallel to tokens, when asked for.
    prompt_logprobs: of all the prompt's tokens, once, before anything generated, when asked for.
    """

    id: str
    text: str = ""
    reasoning: str = ""
    tokens: list[int] = []
    reasoning_tokens: int = 0
    prefilled: Prefilled | None = None
    logprobs: list[TokenLogprob] | None = None
    prompt_logprobs: list[TokenLogprob] | None = None
    finish: Finish | None = None
