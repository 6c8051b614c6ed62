"""What the engine is asked: one generation, independent of any API dialect."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from headrace.engine.output import Prefilled
from headrace.grammar.grammar import Grammar
from headrace.text.reasoning import Thinking

if TYPE_CHECKING:
    TokenIds: TypeAlias = array[int]
else:
    TokenIds = array  # of type "i": four bytes each; as a list of ints they take forty


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True):
    """How tokens are drawn. The edge has validated the ranges.

    temperature 0 is greedy. top_k 0 and top_p 1 cut nothing. seed and choice key the
    counter-based draws: (seed, choice, position) -> number, whatever runs beside.
    logprobs: None for none, else how many alternatives to report beside each token.
    prompt_logprobs: report them for the prompt's tokens too; only with logprobs.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: dict[int, float] = {}
    seed: int = 0
    choice: int = 0
    logprobs: int | None = None
    prompt_logprobs: bool = False


class StopConditions(msgspec.Struct, frozen=True, kw_only=True):
    """When a generation ends. max_tokens counts generated tokens; 0 only reads the prompt.

    stop: texts that end it and are not part of the output. stop_token_ids: ids that end it,
    beside the model's own end-of-sequence ids, which ignore_eos switches off. Nothing but
    max_tokens ends it before min_tokens.
    """

    max_tokens: int
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False


class GenerationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One sequence to generate.

    id: unique among live requests. prompt: token ids, at least one. namespace: only requests of
    the same one share cached prefixes; made by the edge from the tenant. published: so many of
    the first tokens are the operator's, and shared by all. priority: its class; where the KV
    cache runs out, a lower one gives way first. long: its prompt is so long that shorter ones
    are not to wait for it. arrival: unix seconds. thinking: how thoughts
    are told apart from the answer; None if there are none. grammar: what all generated tokens
    must follow, thoughts included; None for no constraint. controls: control tokens that are
    text in this answer, with that text: what function calls are marked with. generated: tokens
    that an engine has generated and delivered before it was lost; this one goes on behind them, as
    that one would have. prefilled: how far that engine had come with the prompt, so that what is
    computed a second time is reported as it was at first.
    """

    id: str
    prompt: TokenIds
    sampling: SamplingParams
    stopping: StopConditions
    namespace: str = ""
    published: int = 0
    priority: int = 0
    long: bool = False
    arrival: float = 0.0
    thinking: Thinking | None = None
    grammar: Grammar | None = None
    controls: dict[int, str] = {}
    generated: TokenIds | None = None
    prefilled: Prefilled | None = None
