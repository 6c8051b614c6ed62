"""Qwen 3, dense (arXiv:2505.09388): Llama with normed queries and keys."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from headrace.models.architectures.decoder import Decoder
from headrace.models.architectures.hyperparameters import Hyperparameters
from headrace.ops.program import Program


def build(keys: Hyperparameters, tensors: Container[str]) -> Program:
    return replace(Decoder.read(keys, tensors), head_norms=True).program()
