"""A random model with room for a million tokens and next to no weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.text.vocabularies import byte_level

from .tiny import write_gguf

CONTEXT = 1 << 20
WIDTH, HEAD_DIM, FEED_FORWARD = 32, 16, 32


def write_endless(path: Path, window: int | None = None) -> Path:
    """A model of one layer and one head whose tokens are bytes: a Llama that sees everything,
    or a Gemma that sees a window."""
    name = "gemma3" if window else "llama"
    tokenizer = byte_level()
    vocabulary = len(tokenizer["tokenizer.ggml.tokens"])  # type: ignore[arg-type]
    keys: dict[str, object] = {
        "block_count": 1,
        "context_length": CONTEXT,
        "embedding_length": WIDTH,
        "feed_forward_length": FEED_FORWARD,
        "attention.head_count": 1,
        "attention.head_count_kv": 1,
        "attention.key_length": HEAD_DIM,
        "attention.value_length": HEAD_DIM,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.freq_base": 1e6,
    }
    block: dict[str, tuple[int, ...]] = {
        "attn_norm": (WIDTH,),
        "attn_q": (HEAD_DIM, WIDTH),
        "attn_k": (HEAD_DIM, WIDTH),
        "attn_v": (HEAD_DIM, WIDTH),
        "attn_output": (WIDTH, HEAD_DIM),
        "ffn_norm": (WIDTH,),
        "ffn_gate": (FEED_FORWARD, WIDTH),
        "ffn_up": (FEED_FORWARD, WIDTH),
        "ffn_down": (WIDTH, FEED_FORWARD),
    }
    if window:
        keys["attention.sliding_window"] = window
        block |= dict.fromkeys(("attn_q_norm", "attn_k_norm"), (HEAD_DIM,))
        block |= dict.fromkeys(("post_attention_norm", "post_ffw_norm"), (WIDTH,))
    shapes = {f"blk.0.{tensor}.weight": shape for tensor, shape in block.items()}
    shapes |= {"token_embd.weight": (vocabulary, WIDTH), "output_norm.weight": (WIDTH,)}
    metadata = {"general.architecture": name, **tokenizer}
    metadata |= {f"{name}.{key}": value for key, value in keys.items()}
    random = np.random.default_rng(0)
    tensors = {tensor: random.normal(size=shape) for tensor, shape in shapes.items()}
    return write_gguf(path, metadata, tensors)
