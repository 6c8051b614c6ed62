"""Writes a GGUF file of a two-layer Llama with random weights and a vocabulary of bytes."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
from tokenizers.pre_tokenizers import ByteLevel

WIDTH, HEADS, KV_HEADS, FEED_FORWARD, LAYERS, CONTEXT = 64, 4, 2, 96, 2, 256
VOCABULARY = [*sorted(ByteLevel.alphabet()), "ab", "<|end|>"]
END = len(VOCABULARY) - 1


def write_tiny_gguf(path: Path) -> Path:
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_rope_freq_base(10_000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(VOCABULARY)
    normal, control = gguf.TokenType.NORMAL, gguf.TokenType.CONTROL
    writer.add_token_types([normal] * END + [control])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(END)
    dice = np.random.default_rng(1)

    def matrix(name: str, *shape: int) -> None:
        values = dice.standard_normal(shape) / np.sqrt(shape[-1])
        writer.add_tensor(name, values.astype(np.float32))

    def norm(name: str) -> None:
        writer.add_tensor(name, np.ones(WIDTH, np.float32))

    kv_width = WIDTH // HEADS * KV_HEADS
    matrix("token_embd.weight", len(VOCABULARY), WIDTH)
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        norm(f"{block}attn_norm.weight")
        matrix(f"{block}attn_q.weight", WIDTH, WIDTH)
        matrix(f"{block}attn_k.weight", kv_width, WIDTH)
        matrix(f"{block}attn_v.weight", kv_width, WIDTH)
        matrix(f"{block}attn_output.weight", WIDTH, WIDTH)
        norm(f"{block}ffn_norm.weight")
        matrix(f"{block}ffn_gate.weight", FEED_FORWARD, WIDTH)
        matrix(f"{block}ffn_up.weight", FEED_FORWARD, WIDTH)
        matrix(f"{block}ffn_down.weight", WIDTH, FEED_FORWARD)
    norm("output_norm.weight")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
