"""What the two completion endpoints have in common: how tokens are drawn, and when it ends.

Ranges are OpenAI's; parameters OpenAI does not have carry vLLM's names. A parameter is
honoured or refused by name; one that changes no output is checked and accepted. `neutral.py` has
the values by which any other parameter changes nothing.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from headrace.api.body import BodyError
from headrace.api.openai.response_format import Choices, GrammarText, Schema, StructuredOutputs
from headrace.api.openai.route import RouteLimits
from headrace.api.openai.service_tier import ServiceTier
from headrace.api.reader import unsupported

MAX_STOPS = 4
MAX_BIASES = 1024

Text64 = Annotated[str, Meta(max_length=64)]
Text512 = Annotated[str, Meta(max_length=512)]
Stop = Annotated[str, Meta(min_length=1, max_length=1024)]
TokenId = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Bias = Annotated[float, Meta(ge=-100, le=100)]


class StreamOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of streams; without one they change nothing. include_usage: one more chunk with the usage.
    include_obfuscation, and vLLM's continuous_usage_stats: false, as it is anyway."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None
    continuous_usage_stats: bool | None = None


class PromptCacheOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """OpenAI's defaults. Every prompt is cached as far as there is room; no time is promised."""

    mode: Literal["implicit"] | None = None
    ttl: Literal["30m"] | None = None


class GenerationParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of both endpoints, within their ranges.

    temperature, top_p, top_k, min_p and repetition_penalty: None for the model's own default.
    user, safety_identifier, prompt_cache_key and metadata identify and never change an
    output; they are accepted and not kept. prompt_cache_options: checked; they change nothing.
    """

    model: str
    max_tokens: Count | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    n: Count = 1
    stop: Stop | Annotated[list[Stop], Meta(max_length=MAX_STOPS)] = []
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    presence_penalty: Penalty = 0.0
    frequency_penalty: Penalty = 0.0
    logit_bias: Annotated[dict[TokenId, Bias], Meta(max_length=MAX_BIASES)] = {}
    top_k: Annotated[int, Meta(ge=-1, le=2**31 - 1)] | None = None
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Meta(ge=0.01, le=100)] | None = None
    stop_token_ids: Annotated[list[TokenId], Meta(max_length=128)] = []
    min_tokens: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    ignore_eos: bool = False
    guided_json: Schema | str | None = None
    guided_regex: str | None = None
    guided_choice: Choices | None = None
    guided_grammar: GrammarText | None = None
    structured_outputs: StructuredOutputs | None = None
    service_tier: ServiceTier = "auto"
    user: str | None = None
    safety_identifier: Text64 | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: PromptCacheOptions | None = None
    route: RouteLimits | None = None
    metadata: Annotated[dict[Text64, Text512], Meta(max_length=16)] = {}

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def include_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)


def check_parameters(request: GenerationParameters, *, max_choices: int) -> None:
    """What no single field can tell. Raises BodyError."""
    if request.stream and (options := request.stream_options) is not None:
        if options.include_obfuscation:
            raise unsupported("stream_options.include_obfuscation", ("false",))
        if options.continuous_usage_stats:
            raise unsupported("stream_options.continuous_usage_stats", ("false",))
    if request.n > max_choices:
        raise BodyError(f"Invalid 'n': this server allows at most {max_choices}.", "n")
