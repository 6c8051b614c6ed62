"""Tiny random models: GGUF files of every architecture, alone or made from Hugging Face's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np

LAYERS, WIDTH, FEED_FORWARD, HEADS, KV_HEADS, HEAD_DIM, VOCAB = 2, 64, 96, 4, 2, 16, 40
EXPERTS, EXPERT_WIDTH = 4, 48

Shapes = dict[str, tuple[int, ...]]


def tiny_metadata(architecture: str) -> dict[str, object]:
    """Key -> value; a float becomes FLOAT32, an int UINT32."""
    metadata: dict[str, object] = {
        "block_count": LAYERS,
        "context_length": 128,
        "embedding_length": WIDTH,
        "feed_forward_length": FEED_FORWARD,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.freq_base": 10000.0,
    }
    if architecture.startswith("gemma"):
        metadata |= {"attention.key_length": HEAD_DIM, "attention.sliding_window": 8}
    if architecture == "gemma2":
        metadata |= {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
    if architecture == "qwen3moe":
        metadata |= {
            "expert_count": EXPERTS,
            "expert_used_count": 2,
            "expert_feed_forward_length": EXPERT_WIDTH,
        }
    named = {f"{architecture}.{name}": value for name, value in metadata.items()}
    return {
        "general.architecture": architecture,
        **named,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": [f"t{i}" for i in range(VOCAB)],
    }


def tiny_shapes(architecture: str) -> Shapes:
    shapes: Shapes = {"token_embd.weight": (VOCAB, WIDTH), "output_norm.weight": (WIDTH,)}
    queries, keys = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    for layer in range(LAYERS):
        block = {
            "attn_norm.weight": (WIDTH,),
            "attn_q.weight": (queries, WIDTH),
            "attn_k.weight": (keys, WIDTH),
            "attn_v.weight": (keys, WIDTH),
            "attn_output.weight": (WIDTH, queries),
            "ffn_norm.weight": (WIDTH,),
            "ffn_gate.weight": (FEED_FORWARD, WIDTH),
            "ffn_up.weight": (FEED_FORWARD, WIDTH),
            "ffn_down.weight": (WIDTH, FEED_FORWARD),
        }
        if architecture == "qwen2":
            block |= {
                "attn_q.bias": (queries,),
                "attn_k.bias": (keys,),
                "attn_v.bias": (keys,),
            }
        if architecture in ("qwen3", "qwen3moe", "gemma3"):
            block |= {"attn_q_norm.weight": (HEAD_DIM,), "attn_k_norm.weight": (HEAD_DIM,)}
        if architecture.startswith("gemma"):
            block |= {"post_attention_norm.weight": (WIDTH,), "post_ffw_norm.weight": (WIDTH,)}
        if architecture == "qwen3moe":
            for name in ("gate", "up", "down"):
                shape = [
                    EXPERT_WIDTH if n == FEED_FORWARD else n
                    for n in block.pop(f"ffn_{name}.weight")
                ]
                block[f"ffn_{name}_exps.weight"] = (EXPERTS, *shape)
            block["ffn_gate_inp.weight"] = (EXPERTS, WIDTH)
        if architecture == "phi3":
            for name in ("attn_q", "attn_k", "attn_v", "ffn_gate"):
                del block[f"{name}.weight"]
            block |= {
                "attn_qkv.weight": (queries + 2 * keys, WIDTH),
                "ffn_up.weight": (2 * FEED_FORWARD, WIDTH),
            }
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in block.items()}
    return shapes


def write_tiny(
    path: Path,
    architecture: str,
    *,
    metadata: Mapping[str, object | None] | None = None,
    without: Sequence[str] = (),
    extra: Mapping[str, tuple[int, ...]] | None = None,
    tensors_in_part: int = 0,
) -> Path:
    """A random model. metadata: keys to change (None: leave out); without: tensors to leave
    out; extra: tensors to add, or give another shape; tensors_in_part: most that one file of a
    split model has, 0 for one file."""
    keys = tiny_metadata(architecture) | dict(metadata or {})
    shapes = tiny_shapes(architecture) | dict(extra or {})
    random = np.random.default_rng(0)
    tensors = {
        name: random.normal(size=shape).astype(np.float32)
        for name, shape in shapes.items()
        if name not in without
    }
    stated = {key: v for key, v in keys.items() if v is not None}
    return write_gguf(path, stated, tensors, tensors_in_part=tensors_in_part)


def write_gguf(
    path: Path,
    metadata: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray],
    quantised: gguf.GGMLQuantizationType | None = None,
    *,
    tensors_in_part: int = 0,
) -> Path:
    """A GGUF file, or the first of several, written by the format's own library: of float32
    tensors, or with matrices quantised."""
    architecture = metadata["general.architecture"]
    writer = gguf.GGUFWriter(path, architecture, split_max_tensors=tensors_in_part)
    for key, value in metadata.items():
        if key != "general.architecture":
            _add(writer, key, value)
    for name, values in tensors.items():
        values = np.ascontiguousarray(values, np.float32)
        if quantised is None or values.ndim == 1:
            writer.add_tensor(name, values)
        else:
            packed = gguf.quants.quantize(values, quantised)
            writer.add_tensor(name, packed, raw_dtype=quantised)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path if path.is_file() else min(path.parent.glob(f"{path.stem}-*.gguf"))


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    match value:
        case bool():
            writer.add_bool(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case str():
            writer.add_string(key, value)
        case list():
            writer.add_array(key, value)
        case _:
            raise TypeError(f"{key}: {value!r}")
