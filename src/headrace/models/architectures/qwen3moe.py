"""Qwen 3, mixtures of experts (arXiv:2505.09388): Qwen 3 but for its feed-forward layers."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from headrace.models.architectures.decoder import Decoder
from headrace.models.architectures.hyperparameters import Hyperparameters
from headrace.models.architectures.mixture import Mixture
from headrace.ops.program import Program


def build(keys: Hyperparameters, tensors: Container[str]) -> Program:
    decoder = Decoder.read(keys, tensors)
    mixture = Mixture.read(keys, decoder.sizes)
    return replace(decoder, head_norms=True, mixture=mixture).program()
