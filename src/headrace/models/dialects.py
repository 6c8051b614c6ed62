"""What `model_type` in config.json stands for, and what such a checkpoint calls its tensors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_LLAMA = {
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "lm_head": "output",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
_HEAD_NORMS = {"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}
_QWEN_EXPERTS = {
    "mlp.gate": "ffn_gate_inp",
    "mlp.experts.*.gate_proj": "ffn_gate.*",
    "mlp.experts.*.up_proj": "ffn_up.*",
    "mlp.experts.*.down_proj": "ffn_down.*",
}
_MIXTRAL_EXPERTS = {
    "block_sparse_moe.gate": "ffn_gate_inp",
    "block_sparse_moe.experts.*.w1": "ffn_gate.*",
    "block_sparse_moe.experts.*.w3": "ffn_up.*",
    "block_sparse_moe.experts.*.w2": "ffn_down.*",
}
_PHI = _LLAMA | {"self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up"}
_GEMMA = _LLAMA | {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """architecture: as GGUF calls it. tied: whether the embedding is the output matrix where
    config.json does not say. names: of tensors, in a layer or out of it -> GGUF's,
    with * for the number of an expert.
    norm_offset: what to add to stored weights of norms (Gemma stores them less 1)."""

    architecture: str
    tied: bool = False
    names: Mapping[str, str] = field(default_factory=lambda: _LLAMA)
    norm_offset: float = 0.0

    def gguf_name(self, stored: str) -> str | None:
        """None for a tensor that no program uses."""
        stem, _, kind = stored.rpartition(".")
        for prefix in _PREFIXES:
            stem = stem.removeprefix(prefix)
        block = ""
        if stem.startswith("layers."):
            _, layer, stem = (*stem.split(".", 2), "")[:3]
            block = f"blk.{layer}."
        number, stem = _expert(stem)
        name = self.names.get(stem)
        return None if name is None else f"{block}{name.replace('*', number)}.{kind}"

    def stored_name(self, name: str) -> str:
        """The name that a checkpoint of text alone would have for it."""
        stem, _, kind = name.rpartition(".")
        back = {gguf: stored for stored, gguf in self.names.items()}
        if stem.startswith("blk."):
            _, layer, part = stem.split(".", 2)
            number, part = _expert(part)
            part = back.get(part, part).replace("*", number)
            return f"model.layers.{layer}.{part}.{kind}"
        part = back.get(stem, stem)
        return f"{part}.{kind}" if part == "lm_head" else f"model.{part}.{kind}"


def _expert(stem: str) -> tuple[str, str]:
    """An expert's number, and the name with * in its place."""
    found = _EXPERT.search(stem)
    return (found[1], _EXPERT.sub(".*", stem)) if found else ("", stem)


_EXPERT = re.compile(r"\.(\d+)(?=\.|$)")

# A model that also sees nests the one that reads.
_PREFIXES = ("model.language_model.", "language_model.model.", "language_model.", "model.")

DIALECTS: Mapping[str, Dialect] = {
    "gemma2": Dialect("gemma2", tied=True, names=_GEMMA, norm_offset=1.0),
    "gemma3": Dialect("gemma3", tied=True, names=_GEMMA | _HEAD_NORMS, norm_offset=1.0),
    "gemma3_text": Dialect("gemma3", tied=True, names=_GEMMA | _HEAD_NORMS, norm_offset=1.0),
    "llama": Dialect("llama"),
    "mistral": Dialect("llama"),
    "mixtral": Dialect("llama", names=_LLAMA | _MIXTRAL_EXPERTS),
    "phi3": Dialect("phi3", names=_PHI),
    "qwen2": Dialect("qwen2"),
    "qwen3": Dialect("qwen3", names=_LLAMA | _HEAD_NORMS),
    "qwen3_moe": Dialect("qwen3moe", names=_LLAMA | _HEAD_NORMS | _QWEN_EXPERTS),
    "smollm3": Dialect("smollm3", tied=True),
}
