"""Every family's program, run by the reference backend, against Hugging Face transformers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from bench.accuracy import load, logits_of
from transformers import (
    AutoModelForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from headrace.models.model import open_model
from headrace.ops.reference import ReferenceBackend
from headrace.text.tokenizer import Tokenizer
from tests.models.huggingface import export, logits

SIZES = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 120,
    "max_position_embeddings": 256,
}
TEXT = """Once there were three brothers who had fallen deeper and deeper into poverty, and at
last their need was so great that they had to endure hunger, and had nothing to eat or drink
any more. Then said they, "We cannot go on thus, we had better go into the world and seek our
fortune." They therefore set out, and had already walked over many a long road and many a blade
of grass, but had not yet met with good luck."""


def randomised(model: PreTrainedModel) -> PreTrainedModel:
    """Weights large enough that every part of the model matters, norms and biases included."""
    generator = torch.Generator().manual_seed(11)
    for parameter in model.parameters():
        spread = 0.3 if parameter.ndim == 1 else parameter.shape[-1] ** -0.5
        noise = torch.randn(parameter.shape, generator=generator) * spread
        parameter.data = noise if parameter.ndim > 1 else parameter.data + noise
    return model.float().eval()


def assert_agree(model: PreTrainedModel, path: Path, tokens: np.ndarray, step: int) -> None:
    expected = logits(model, tokens)
    executable = load(ReferenceBackend(), open_model(path), len(tokens), step)
    found = logits_of(executable, tokens.astype(np.int32), step)
    difference = np.linalg.norm(found - expected, axis=1)
    assert (difference / np.linalg.norm(expected, axis=1)).max() < 1e-3
    np.testing.assert_array_equal(found.argmax(axis=1), expected.argmax(axis=1))


@pytest.fixture
def tokens() -> np.ndarray:
    return np.random.default_rng(3).integers(0, SIZES["vocab_size"], 150)


@pytest.mark.parametrize("tied", [True, False])
def test_llama(tmp_path: Path, tokens: np.ndarray, tied: bool) -> None:
    config = LlamaConfig(**SIZES, tie_word_embeddings=tied, attention_bias=True, mlp_bias=True)
    model = randomised(LlamaForCausalLM(config))
    assert_agree(model, export(model, "llama", tmp_path / "m.gguf"), tokens, step=64)


def test_llama_with_linear_scaling(tmp_path: Path, tokens: np.ndarray) -> None:
    rope = {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}
    model = randomised(LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=rope)))
    path = export(
        model,
        "llama",
        tmp_path / "m.gguf",
        **{"rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
    )
    assert_agree(model, path, tokens, step=150)


def test_llama_3_scaling_comes_as_a_tensor(tmp_path: Path, tokens: np.ndarray) -> None:
    rope = {
        "rope_type": "llama3",
        "rope_theta": 5000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    model = randomised(LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=rope)))
    path = export(model, "llama", tmp_path / "m.gguf", **{"rope.freq_base": 5000.0})
    assert_agree(model, path, tokens, step=150)


def test_qwen2(tmp_path: Path, tokens: np.ndarray) -> None:
    config = Qwen2Config(**SIZES, rope_parameters={"rope_type": "default", "rope_theta": 1e6})
    model = randomised(Qwen2ForCausalLM(config))
    path = export(model, "qwen2", tmp_path / "m.gguf", **{"rope.freq_base": 1e6})
    assert_agree(model, path, tokens, step=64)


def test_gemma3(tmp_path: Path, tokens: np.ndarray) -> None:
    sizes = SIZES | {"num_hidden_layers": 7, "num_key_value_heads": 1}
    config = Gemma3TextConfig(
        **sizes,
        head_dim=32,
        sliding_window=40,
        query_pre_attn_scalar=32,
        rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        },
    )
    model = randomised(Gemma3ForCausalLM(config))
    path = export(
        model,
        "gemma3",
        tmp_path / "m.gguf",
        **{
            "attention.key_length": 32,
            "attention.value_length": 32,
            "attention.sliding_window": 40,
            "rope.freq_base": 1e6,
            "rope.scaling.type": "linear",
            "rope.scaling.factor": 8.0,
        },
    )
    assert_agree(model, path, tokens, step=64)


def test_smollm2_from_the_same_file(smollm2_path: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(
        smollm2_path.parent, gguf_file=smollm2_path.name, dtype=torch.float32
    ).eval()
    tokenizer = Tokenizer.from_gguf(open_model(smollm2_path).metadata)
    tokens = np.array(tokenizer.encode(TEXT))
    assert len(tokens) >= 64
    assert_agree(model, smollm2_path, tokens, step=48)
