"""Qwen 2 and 2.5 (arXiv:2407.10671): Llama with biased query, key and value."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from headrace.models.architectures.decoder import Decoder
from headrace.models.architectures.hyperparameters import Hyperparameters
from headrace.ops.program import Program


def build(keys: Hyperparameters, tensors: Container[str]) -> Program:
    return replace(Decoder.read(keys, tensors), qkv_bias=True).program()
