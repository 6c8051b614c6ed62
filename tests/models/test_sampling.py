"""Sampling defaults of model files: what is honoured, and what is said to be ignored."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.models.sampling import SamplingDefaults, of_generation_config, of_gguf


def test_a_generation_configs_numbers_are_the_defaults() -> None:
    config = {
        "bos_token_id": 1,
        "eos_token_id": [2, 7],
        "do_sample": True,
        "temperature": 0.6,
        "top_p": 0.95,
        "top_k": 20,
        "min_p": 0.05,
        "repetition_penalty": 1.1,
        "transformers_version": "4.51.0",
    }
    expected = SamplingDefaults(
        temperature=0.6, top_p=0.95, top_k=20, min_p=0.05, repetition_penalty=1.1
    )
    assert of_generation_config(config) == (expected, ())


def test_do_sample_false_is_greedy() -> None:
    sampling, _ = of_generation_config({"do_sample": False, "temperature": 0.7})
    assert sampling.temperature == 0.0


def test_what_is_not_honoured_is_named_with_its_value() -> None:
    config = {"num_beams": 4, "no_repeat_ngram_size": 3, "max_new_tokens": 512, "typical_p": 1.0}
    _, ignored = of_generation_config(config)
    assert ignored == ("max_new_tokens=512", "no_repeat_ngram_size=3", "num_beams=4")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -1),
        ("temperature", 5.0),
        ("temperature", "hot"),
        ("temperature", float("nan")),
        ("temperature", True),
        ("temperature", 10**400),
        ("top_p", 1.5),
        ("top_k", 2.5),
        ("top_k", -2),
        ("min_p", float("inf")),
        ("repetition_penalty", 0),
    ],
)
def test_a_value_outside_its_range_is_ignored_and_named(name: str, value: object) -> None:
    sampling, ignored = of_generation_config({name: value})
    assert sampling == SamplingDefaults()
    assert ignored == (f"{name}={value!r}",)


def test_a_top_k_of_minus_one_cuts_nothing() -> None:
    assert of_generation_config({"top_k": -1}) == (SamplingDefaults(top_k=0), ())


def test_gguf_keys_are_the_defaults() -> None:
    metadata = {
        "general.sampling.temp": float(np.float32(0.6)),
        "general.sampling.top_k": 20,
        "general.sampling.top_p": 0.95,
        "general.sampling.min_p": 0.0,
        "general.sampling.penalty_repeat": 1.05,
        "general.sampling.mirostat": 0,
        "general.sampling.mirostat_tau": 5.0,
        "general.name": "m",
    }
    expected = SamplingDefaults(
        temperature=0.6, top_p=0.95, top_k=20, min_p=0.0, repetition_penalty=1.05
    )
    assert of_gguf(metadata) == (expected, ())


def test_gguf_keys_that_are_not_honoured_are_named() -> None:
    metadata = {
        "general.sampling.temp": 9.0,
        "general.sampling.xtc_probability": 0.5,
        "general.sampling.sequence": "top_k;temp",
    }
    assert of_gguf(metadata) == (
        SamplingDefaults(),
        (
            "general.sampling.temp=9.0",
            "general.sampling.sequence='top_k;temp'",
            "general.sampling.xtc_probability=0.5",
        ),
    )
