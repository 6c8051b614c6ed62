"""Sampling defaults: the request's own words, then the model's, then none."""

from __future__ import annotations

from typing import Any

from headrace.api.openai.chat import ChatRequest
from headrace.edge.sampling import sampling_params
from headrace.engine.request import SamplingParams
from headrace.models.sampling import SamplingDefaults

DEFAULTS = SamplingDefaults(
    temperature=0.2, top_p=0.9, top_k=20, min_p=0.05, repetition_penalty=1.1
)


def drawn(defaults: SamplingDefaults, **fields: Any) -> SamplingParams:
    return sampling_params(ChatRequest(model="m", messages=[], **fields), defaults, None)


def test_a_request_that_says_nothing_has_the_models_defaults() -> None:
    params = drawn(DEFAULTS)
    assert (params.temperature, params.top_p, params.top_k) == (0.2, 0.9, 20)
    assert (params.min_p, params.repetition_penalty) == (0.05, 1.1)


def test_a_requests_own_values_replace_the_models_also_where_they_are_the_neutral_ones() -> None:
    fields = {"temperature": 0.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0}
    params = drawn(DEFAULTS, **fields, repetition_penalty=1.0)
    assert params == SamplingParams(temperature=0.0, top_p=1.0, top_k=0, min_p=0.0)


def test_a_model_without_defaults_draws_from_the_plain_distribution() -> None:
    assert drawn(SamplingDefaults()) == SamplingParams()
