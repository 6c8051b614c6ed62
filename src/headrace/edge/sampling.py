"""How a request's tokens are drawn: by its own words, else by the model's defaults."""

from __future__ import annotations

from typing import TypeVar

from headrace.api.openai.parameters import GenerationParameters
from headrace.engine.request import SamplingParams
from headrace.models.sampling import SamplingDefaults

T = TypeVar("T")

_PLAIN = SamplingParams()


def sampling_params(
    request: GenerationParameters, defaults: SamplingDefaults, logprobs: int | None
) -> SamplingParams:
    """logprobs: alternatives of each token to tell, None for no logprobs at all."""
    return SamplingParams(
        temperature=_first(request.temperature, defaults.temperature, _PLAIN.temperature),
        top_p=_first(request.top_p, defaults.top_p, _PLAIN.top_p),
        top_k=max(_first(request.top_k, defaults.top_k, _PLAIN.top_k), 0),
        min_p=_first(request.min_p, defaults.min_p, _PLAIN.min_p),
        presence_penalty=request.presence_penalty,
        frequency_penalty=request.frequency_penalty,
        repetition_penalty=_first(
            request.repetition_penalty, defaults.repetition_penalty, _PLAIN.repetition_penalty
        ),
        logit_bias=request.logit_bias,
        logprobs=logprobs,
    )


def _first(asked: T | None, default: T | None, plain: T) -> T:
    if asked is not None:
        return asked
    return plain if default is None else default
