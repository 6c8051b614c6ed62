"""Qwen 2 and 2.5 (arXiv:2407.10671): Llama with biased query, key, value and NeoX rotation."""

from __future__ import annotations

from collections.abc import Container

from headrace.models.architectures import llama
from headrace.models.architectures.hyperparameters import Hyperparameters, Sizes
from headrace.models.architectures.layers import program, read_rope
from headrace.ops.program import Program


def build(keys: Hyperparameters, tensors: Container[str]) -> Program:
    sizes = Sizes.read(keys)
    rope = read_rope(keys, sizes, tensors, interleaved=False)
    return program(sizes, llama.decoder(keys, sizes, tensors, rope, qkv_bias=True))
