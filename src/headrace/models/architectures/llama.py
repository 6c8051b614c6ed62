"""Llama (arXiv:2302.13971) and its kin: norm, attention, norm, gated SiLU, all residual."""

from __future__ import annotations

from collections.abc import Container, Iterator

from headrace.models.architectures.hyperparameters import Hyperparameters, Sizes
from headrace.models.architectures.layers import (
    EMBEDDING,
    attention,
    attention_output,
    gated_mlp,
    output_head,
    program,
    read_rope,
)
from headrace.ops.program import Embed, Norm, Op, Program, Rope


def build(keys: Hyperparameters, tensors: Container[str]) -> Program:
    """GGUF stores Llama's query and key rows so that rotary pairs are neighbours."""
    experts = keys.integer("expert_count", 0, 1 << 16, default=0)
    if experts:
        raise ValueError(
            f"key {keys.key('expert_count')!r} is {experts}; mixtures of experts are not supported"
        )
    sizes = Sizes.read(keys)
    rope = read_rope(keys, sizes, tensors, interleaved=True)
    return program(sizes, decoder(keys, sizes, tensors, rope))


def decoder(
    keys: Hyperparameters,
    sizes: Sizes,
    tensors: Container[str],
    rope: Rope,
    *,
    qkv_bias: bool = False,
) -> Iterator[Op]:
    """The whole model, for every family that differs from Llama only in rope and biases."""
    scale = keys.number("attention.scale", sizes.head_dim**-0.5)
    yield Embed("x", EMBEDDING)
    for layer in range(sizes.layers):
        block = f"blk.{layer}."
        yield Norm("h", "x", f"{block}attn_norm.weight", sizes.eps)
        yield from attention(layer, sizes, tensors, rope=rope, scale=scale, qkv_bias=qkv_bias)
        yield attention_output(layer, tensors, "x")
        yield Norm("h", "x", f"{block}ffn_norm.weight", sizes.eps)
        yield from gated_mlp(layer, tensors, "silu", "x")
    yield from output_head(sizes, tensors)
