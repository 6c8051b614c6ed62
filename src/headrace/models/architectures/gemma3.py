"""Gemma 3 (arXiv:2503.19786), text: five layers that see a window, then one that sees all.

Embeddings are scaled by sqrt(width), heads' queries and keys are normed, and what a layer
adds to the stream is normed before and after. GGUF stores norm weights with the 1 added.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from headrace.models.architectures.hyperparameters import (
    MAX_CONTEXT,
    MAX_LAYERS,
    Hyperparameters,
    Sizes,
)
from headrace.models.architectures.layers import (
    EMBEDDING,
    attention,
    attention_output,
    gated_mlp,
    output_head,
    program,
    read_rope,
)
from headrace.ops.program import Add, Embed, Norm, Op, Program, Rope

_LAYERS_OF_27B = 62


def build(keys: Hyperparameters, tensors: Container[str]) -> Program:
    sizes = Sizes.read(keys)
    return program(sizes, _decoder(keys, sizes, tensors))


def _decoder(keys: Hyperparameters, sizes: Sizes, tensors: Container[str]) -> Iterator[Op]:
    everywhere = read_rope(keys, sizes, tensors, interleaved=False)
    # Scaling for long contexts touches only the layers that see them.
    local = Rope(keys.number("rope.freq_base_swa", 10000.0), everywhere.dims, interleaved=False)
    window = keys.integer("attention.sliding_window", 1, MAX_CONTEXT)
    period = keys.integer("attention.sliding_window_pattern", 1, MAX_LAYERS, default=6)
    scale = _attention_scale(sizes)
    yield Embed("x", EMBEDDING, sizes.width**0.5)
    for layer in range(sizes.layers):
        block = f"blk.{layer}."
        sees_all = layer % period == period - 1
        yield Norm("h", "x", f"{block}attn_norm.weight", sizes.eps)
        yield from attention(
            layer,
            sizes,
            tensors,
            rope=everywhere if sees_all else local,
            scale=scale,
            head_norms=True,
            window=None if sees_all else window,
        )
        yield attention_output(layer, tensors, "y")
        yield Norm("y", "y", f"{block}post_attention_norm.weight", sizes.eps)
        yield Add("x", "y")
        yield Norm("h", "x", f"{block}ffn_norm.weight", sizes.eps)
        yield from gated_mlp(layer, tensors, "gelu", "y")
        yield Norm("y", "y", f"{block}post_ffw_norm.weight", sizes.eps)
        yield Add("x", "y")
    softcap = keys.optional_number("final_logit_softcapping")
    yield from output_head(sizes, tensors, softcap)


def _attention_scale(sizes: Sizes) -> float:
    """By a head's width; the 27B, which its file does not tell apart, by width over heads."""
    if sizes.layers == _LAYERS_OF_27B:
        return float((sizes.width / sizes.heads) ** -0.5)
    return float(sizes.head_dim**-0.5)
