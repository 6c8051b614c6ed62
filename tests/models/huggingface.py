"""Hugging Face models as GGUF, so that two independent implementations see equal weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGMLQuantizationType
from gguf.quants import dequantize, quantize
from transformers import PreTrainedModel

from tests.models.tiny import write_gguf

_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.gate": "ffn_gate_inp",
    "mlp.experts.gate_up_proj": "ffn_gate_up_exps",
    "mlp.experts.down_proj": "ffn_down_exps",
    "input_layernorm": "attn_norm",
}
_LLAMA_NORM = {"post_attention_layernorm": "ffn_norm"}
_GEMMA_NORMS = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
_PERMUTED = ("llama", "smollm3")


def export(
    model: PreTrainedModel,
    architecture: str,
    path: Path,
    *,
    quantised: GGMLQuantizationType | None = None,
    **metadata: Any,
) -> Path:
    """The model's weights in GGUF's names and layouts; metadata: the family's own keys.

    quantised: how to store matrices; the model's own then become what the file holds.
    """
    config = model.config
    keys = {
        "block_count": config.num_hidden_layers,
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
    } | metadata
    tensors: dict[str, np.ndarray] = {}
    for name, value in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        values = value.float().numpy().copy()
        if quantised is not None and values.ndim > 1:
            value.copy_(torch.from_numpy(dequantize(quantize(values, quantised), quantised)))
        if architecture in _PERMUTED and "q_proj" in name:
            values = interleave(values, config.num_attention_heads)
        if architecture in _PERMUTED and "k_proj" in name:
            values = interleave(values, config.num_key_value_heads)
        if architecture.startswith("gemma") and name.endswith("norm.weight"):
            values = values + 1
        tensors |= named(name, architecture, values)
    rope = getattr(config, "rope_parameters", {})
    if rope.get("rope_type") == "llama3":
        tensors["rope_freqs.weight"] = rope_factors(model)
    for kind in ("long", "short"):
        if f"{kind}_factor" in rope:
            factors = np.array(rope[f"{kind}_factor"], np.float32)
            tensors[f"rope_factors_{kind}.weight"] = factors
    return write_gguf(
        path,
        {
            "general.architecture": architecture,
            **{f"{architecture}.{key}": value for key, value in keys.items()},
            "tokenizer.ggml.tokens": [f"t{i}" for i in range(config.vocab_size)],
        },
        tensors,
        quantised,
    )


def named(name: str, architecture: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """By GGUF's name; transformers has the gates and ups of experts in one."""
    if not name.endswith("experts.gate_up_proj"):
        return {gguf_name(name, architecture): values}
    parts = zip(("gate", "up"), np.split(values, 2, axis=1), strict=True)
    stem = gguf_name(name, architecture)
    return {stem.replace("gate_up", part): half for part, half in parts}


def gguf_name(name: str, architecture: str) -> str:
    if "experts." in name:
        name += ".weight"
    stem, kind = name.rsplit(".", 1)
    prefix = ""
    if stem.startswith("model.layers."):
        _, _, layer, stem = stem.split(".", 3)
        prefix = f"blk.{layer}."
    norms = _GEMMA_NORMS if architecture.startswith("gemma") else _LLAMA_NORM
    return f"{prefix}{(_NAMES | norms)[stem]}.{kind}"


def interleave(values: np.ndarray, heads: int) -> np.ndarray:
    """Rows of each head from (first halves, second halves) to neighbouring pairs."""
    rows = values.reshape(heads, 2, -1, *values.shape[1:])
    return rows.swapaxes(1, 2).reshape(values.shape)


def rope_factors(model: PreTrainedModel) -> np.ndarray:
    """What Llama 3.1's rope divides each pair's frequency by."""
    scaled = model.model.rotary_emb.inv_freq.numpy()
    plain = model.config.rope_parameters["rope_theta"] ** -(np.arange(len(scaled)) / len(scaled))
    return (plain / scaled).astype(np.float32)


def logits(model: PreTrainedModel, tokens: np.ndarray) -> np.ndarray:
    """float32 [tokens, vocabulary] of one sequence."""
    with torch.no_grad():
        result: np.ndarray = model(torch.tensor(tokens, dtype=torch.long)[None]).logits[0].numpy()
    return result
