"""Ropes beyond the original context, from config.json and from GGUF, against transformers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from headrace.models.errors import ModelFileError
from headrace.models.model import open_model
from headrace.ops.program import Program, Rope, RotaryKV
from tests.models.families import CONTEXT, FAMILIES, LLAMA3_ROPE, ORIGINAL, SIZES, VOCAB, randomised
from tests.models.huggingface import export, logits
from tests.models.test_architectures import assert_agree
from tests.models.tiny import write_tiny

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": ORIGINAL}
LONG = {
    "rope_type": "longrope",
    "original_max_position_embeddings": ORIGINAL,
    "short_factor": [1.0 + 0.1 * i for i in range(8)],
    "long_factor": [1.0 + 0.9 * i for i in range(8)],
}
SCALINGS: dict[str, dict[str, Any]] = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 4.0},
    "llama3": LLAMA3_ROPE,
    "yarn": YARN,
    "yarn with its attention factor": {**YARN, "attention_factor": 0.8},
    "yarn with betas": {**YARN, "beta_fast": 8.0, "beta_slow": 0.5},
    "yarn not truncated": {**YARN, "truncate": False},
    "yarn with mscale": {**YARN, "mscale": 0.7, "mscale_all_dim": 1.4},
    "longrope": LONG,
    "longrope with a factor": {**LONG, "factor": 16.0},
    "longrope with its attention factor": {**LONG, "attention_factor": 1.3},
}


@pytest.fixture(scope="module")
def tokens() -> np.ndarray:
    return np.random.default_rng(5).integers(0, VOCAB, 150)


def llama(rope: dict[str, Any], context: int = CONTEXT) -> PreTrainedModel:
    sizes = SIZES | {"max_position_embeddings": context}
    config = LlamaConfig(**sizes, rope_parameters={"rope_theta": 10000.0} | rope)
    return randomised(LlamaForCausalLM(config))


def edit_config(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))


def in_old_words(config: dict[str, Any]) -> None:
    """As transformers before version 5 wrote it."""
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = {"type": rope.pop("rope_type"), **rope}


@pytest.mark.parametrize("old", [False, True], ids=["rope_parameters", "rope_scaling"])
@pytest.mark.parametrize("name", SCALINGS)
def test_config(tmp_path: Path, tokens: np.ndarray, name: str, old: bool) -> None:
    # "dynamic" stretches the stated context, everything else what is below it.
    model = llama(SCALINGS[name], ORIGINAL if name == "dynamic" else CONTEXT)
    model.save_pretrained(tmp_path)
    if old:
        edit_config(tmp_path, in_old_words)
    # transformers grows "dynamic" to the sequence it sees, so the deployment is as long.
    deployed = len(tokens) if name == "dynamic" else None
    opened = open_model(tmp_path, deployed)
    assert_agree(logits(model, tokens), opened, tokens, step=len(tokens))


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_a_deployment_within_the_original_context(
    tmp_path: Path, tokens: np.ndarray, kind: str
) -> None:
    """It has the rope of short sequences; so one that is longer would not agree."""
    model = llama(SCALINGS[kind], ORIGINAL if kind == "dynamic" else CONTEXT)
    model.save_pretrained(tmp_path)
    short = tokens[:ORIGINAL]
    assert_agree(logits(model, short), open_model(tmp_path, ORIGINAL), short, step=20)
    with pytest.raises(AssertionError):
        assert_agree(logits(model, short), open_model(tmp_path), short, step=20)


def test_longrope_from_gguf_within_the_original_context(tmp_path: Path, tokens: np.ndarray) -> None:
    family = FAMILIES["phi-4"]
    model = family.model()
    path = export(model, family.architecture, tmp_path / "m.gguf", **family.keys)
    short = tokens[:ORIGINAL]
    assert_agree(logits(model, short), open_model(path, ORIGINAL), short, step=64)


@pytest.mark.parametrize("attention_factor", [None, 0.8])
def test_yarn_from_gguf(tmp_path: Path, tokens: np.ndarray, attention_factor: float | None) -> None:
    rope = {"rope_theta": 10000.0, **YARN, "beta_fast": 8.0, "beta_slow": 0.5}
    keys = {
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 4.0,
        "rope.scaling.original_context_length": ORIGINAL,
        "rope.scaling.yarn_beta_fast": 8.0,
        "rope.scaling.yarn_beta_slow": 0.5,
    }
    if attention_factor is not None:
        rope["attention_factor"] = attention_factor
        # In GGUF it multiplies what the factor gives.
        keys["rope.scaling.yarn_attn_factor"] = attention_factor / (0.1 * float(np.log(4)) + 1)
    model = randomised(Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=16, rope_parameters=rope)))
    path = export(model, "qwen3", tmp_path / "m.gguf", **{"attention.key_length": 16, **keys})
    assert_agree(logits(model, tokens), open_model(path), tokens, step=64)


@pytest.mark.parametrize(
    ("rope", "stated", "longest"),
    [
        (SCALINGS["linear"], 256, 256),
        (SCALINGS["dynamic"], 256, 1024),
        (YARN, 64, 256),
        (YARN, 256, 256),
        (LLAMA3_ROPE, 256, 256),
        (LONG, 256, 256),
    ],
)
def test_how_long_sequences_may_be(
    tmp_path: Path, rope: dict[str, Any], stated: int, longest: int
) -> None:
    llama(rope, stated).save_pretrained(tmp_path)
    assert open_model(tmp_path).context_length == longest
    # What a deployment asks for bounds the rope, not the model.
    assert open_model(tmp_path, 32).context_length == longest


def test_how_long_sequences_of_a_gguf_file_may_be(tmp_path: Path) -> None:
    scaling = {"type": "yarn", "factor": 4.0, "original_context_length": 64}
    metadata = {f"llama.rope.scaling.{name}": value for name, value in scaling.items()}
    path = write_tiny(tmp_path / "m.gguf", "llama", metadata=metadata)
    assert open_model(path).context_length == 256


def ropes(program: Program) -> list[Rope | None]:
    return [op.rope for op in program.ops if isinstance(op, RotaryKV)]


@pytest.mark.parametrize("name", ["rope_parameters", "rope_scaling"])
def test_gemma_3_in_every_wording(tmp_path: Path, name: str) -> None:
    """Nested by the kind of layer, or as one that means the layers which see everything."""
    FAMILIES["gemma3"].model().save_pretrained(tmp_path)
    expected = ropes(open_model(tmp_path).program)

    def nested(config: dict[str, Any]) -> None:
        config[name] = config.pop("rope_parameters")

    edit_config(tmp_path, nested)
    assert ropes(open_model(tmp_path).program) == expected

    def flat(config: dict[str, Any]) -> None:
        del config[name]
        config |= {"rope_theta": 1e6, "rope_local_base_freq": 10000}
        config["rope_scaling"] = {"rope_type": "linear", "factor": 8.0}

    edit_config(tmp_path, flat)
    assert ropes(open_model(tmp_path).program) == expected


REFUSED = [
    ({"rope_type": "spiral"}, "rope type 'spiral' is not supported"),
    ({"type": "mrope", "mrope_section": [2, 3, 3]}, "rope type 'mrope' is not supported"),
    ({"rope_type": "linear"}, "'factor' is missing, which 'linear' needs"),
    ({"rope_type": "linear", "factor": "4"}, "'factor' must be a number, not str"),
    ({"rope_type": "linear", "factor": -1}, "'factor' is -1.0, not a positive number"),
    ({"rope_type": "llama3", "factor": 8}, "'low_freq_factor' is missing"),
    ({**LLAMA3_ROPE, "high_freq_factor": 1.0}, "the rope's parameters make no rope: "),
    ({**YARN, "rope_theta": 1.0}, "the rope's parameters make no rope: "),
    ({**YARN, "truncate": 3}, "'truncate' must be true or false"),
    ({**YARN, "original_max_position_embeddings": 0}, "is 0, not a context length"),
    ({**LONG, "long_factor": [1.0]}, "'long_factor' must be a list of 8 numbers"),
    ({"rope_type": "default", "partial_rotary_factor": 2.0}, "must lie above 0, up to 1"),
    ({"full_attention": {"rope_type": "spiral"}}, "rope type 'spiral' is not supported"),
    ({"sliding_attention": {}}, "must say what full_attention layers have"),
    ("linear", "'rope_scaling' must be an object"),
]


@pytest.mark.parametrize(("rope", "fault"), REFUSED)
def test_what_is_refused(tmp_path: Path, rope: object, fault: str) -> None:
    llama({}).save_pretrained(tmp_path)

    def change(config: dict[str, Any]) -> None:
        del config["rope_parameters"]
        config["rope_scaling"] = rope

    edit_config(tmp_path, change)
    with pytest.raises(ModelFileError, match=fault) as refusal:
        open_model(tmp_path)
    assert str(tmp_path) in str(refusal.value)


def test_a_key_of_yarn_that_nobody_agrees_on_is_refused(tmp_path: Path) -> None:
    scaling = {"type": "yarn", "factor": 4.0, "yarn_log_multiplier": 0.1}
    metadata = {f"llama.rope.scaling.{name}": value for name, value in scaling.items()}
    path = write_tiny(tmp_path / "m.gguf", "llama", metadata=metadata)
    with pytest.raises(ModelFileError, match=r"yarn_log_multiplier' is not supported"):
        open_model(path)
