"""Tiny models of every family as transformers makes them, and what their GGUF files say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    LlamaConfig,
    MistralConfig,
    MixtralConfig,
    Phi3Config,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
    Qwen3MoeConfig,
    SmolLM3Config,
)

VOCAB = 120
CONTEXT = 256
ORIGINAL = 64
"""The context before a rope is stretched: tests go well beyond it."""
WINDOW = 40

SIZES = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": VOCAB,
    "max_position_embeddings": CONTEXT,
    "pad_token_id": None,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 5000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": ORIGINAL,
}
SHORT = [1.0 + 0.1 * i for i in range(6)]
LONG = [1.0 + 0.9 * i for i in range(6)]
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": SHORT,
    "long_factor": LONG,
    "partial_rotary_factor": 0.75,
}


@dataclass(frozen=True)
class Family:
    """architecture: as GGUF calls it. keys: what its GGUF file says beside the sizes."""

    architecture: str
    config: Callable[[], PreTrainedConfig]
    keys: Mapping[str, Any] = field(default_factory=dict)

    def model(self) -> PreTrainedModel:
        return randomised(AutoModelForCausalLM.from_config(self.config()))


def _llama() -> LlamaConfig:
    return LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True)


def _llama3() -> LlamaConfig:
    return LlamaConfig(**SIZES, rope_parameters=dict(LLAMA3_ROPE))


def _smollm2() -> LlamaConfig:
    return LlamaConfig(**SIZES, tie_word_embeddings=True)


def _mistral() -> MistralConfig:
    return MistralConfig(**SIZES, head_dim=32, sliding_window=WINDOW)


def _qwen2() -> Qwen2Config:
    return Qwen2Config(**SIZES, rope_parameters={"rope_type": "default", "rope_theta": 1e6})


def _qwen3() -> Qwen3Config:
    rope = {"rope_type": "default", "rope_theta": 1e6}
    return Qwen3Config(**SIZES, head_dim=32, rope_parameters=rope)


def _mixtral() -> MixtralConfig:
    return MixtralConfig(**SIZES, num_local_experts=5, num_experts_per_tok=2)


def _qwen3moe(*, normalise: bool = True, plain_layers: tuple[int, ...] = ()) -> Qwen3MoeConfig:
    return Qwen3MoeConfig(
        **SIZES,
        head_dim=32,
        num_experts=8,
        num_experts_per_tok=3,
        moe_intermediate_size=32,
        norm_topk_prob=normalise,
        mlp_only_layers=list(plain_layers),
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
    )


def _qwen3moe_plain() -> Qwen3MoeConfig:
    return _qwen3moe(normalise=False, plain_layers=(1,))


def _smollm3() -> SmolLM3Config:
    return SmolLM3Config(**SIZES | {"num_hidden_layers": 5})


def _phi3() -> Phi3Config:
    return Phi3Config(**SIZES, sliding_window=WINDOW)


def _phi4() -> Phi3Config:
    return Phi3Config(
        **SIZES,
        original_max_position_embeddings=ORIGINAL,
        rope_parameters=dict(LONGROPE),
        tie_word_embeddings=True,
    )


def _gemma2() -> Gemma2Config:
    return Gemma2Config(
        **SIZES,
        head_dim=32,
        sliding_window=WINDOW,
        query_pre_attn_scalar=32,
        # So low that leaving them out would show.
        attn_logit_softcapping=2.0,
        final_logit_softcapping=3.0,
        attn_implementation="eager",
    )


def _gemma3() -> Gemma3TextConfig:
    return Gemma3TextConfig(
        **SIZES | {"num_hidden_layers": 7, "num_key_value_heads": 1},
        head_dim=32,
        sliding_window=WINDOW,
        query_pre_attn_scalar=32,
        rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        },
    )


_HEADS_OF_32 = {"attention.key_length": 32, "attention.value_length": 32}
_QWEN3 = _HEADS_OF_32 | {"rope.freq_base": 1e6}
_QWEN3MOE = _QWEN3 | {
    "expert_count": 8,
    "expert_used_count": 3,
    "expert_feed_forward_length": 32,
}
_LONGROPE_MAGNITUDE = (1 + 1 / 3) ** 0.5  # the context is 4 times longer, ln 4 / ln 64 = 1/3

FAMILIES = {
    "llama-2": Family("llama", _llama),
    "llama-3.1": Family("llama", _llama3, {"rope.freq_base": 5000.0}),
    "smollm2": Family("llama", _smollm2),
    "mistral": Family("llama", _mistral, _HEADS_OF_32 | {"attention.sliding_window": WINDOW}),
    "qwen2": Family("qwen2", _qwen2, {"rope.freq_base": 1e6}),
    "mixtral": Family(
        "llama", _mixtral, {"expert_count": 5, "expert_used_count": 2, "rope.freq_base": 1e6}
    ),
    "qwen3": Family("qwen3", _qwen3, _QWEN3),
    "qwen3moe": Family("qwen3moe", _qwen3moe, _QWEN3MOE),
    "qwen3moe-plain": Family(
        "qwen3moe", _qwen3moe_plain, _QWEN3MOE | {"expert_weights_norm": False}
    ),
    "smollm3": Family("smollm3", _smollm3, {"rope.freq_base": 2e6}),
    "phi-3": Family("phi3", _phi3, {"attention.sliding_window": WINDOW}),
    "phi-4": Family(
        "phi3",
        _phi4,
        {
            "rope.dimension_count": 12,
            "rope.scaling.original_context_length": ORIGINAL,
            "rope.scaling.attn_factor": _LONGROPE_MAGNITUDE,
        },
    ),
    "gemma2": Family(
        "gemma2",
        _gemma2,
        _HEADS_OF_32
        | {
            "attention.sliding_window": WINDOW,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 3.0,
        },
    ),
    "gemma3": Family(
        "gemma3",
        _gemma3,
        _HEADS_OF_32
        | {
            "attention.sliding_window": WINDOW,
            "rope.freq_base": 1e6,
            "rope.scaling.type": "linear",
            "rope.scaling.factor": 8.0,
        },
    ),
}


def randomised(model: PreTrainedModel) -> PreTrainedModel:
    """Weights large enough that every part of the model matters, norms and biases included."""
    generator = torch.Generator().manual_seed(11)
    for parameter in model.parameters():
        spread = 0.3 if parameter.ndim == 1 else parameter.shape[-1] ** -0.5
        noise = torch.randn(parameter.shape, generator=generator) * spread
        parameter.data = noise if parameter.ndim > 1 else parameter.data + noise
    return model.float().eval()
