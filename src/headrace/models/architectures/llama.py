"""Llama 2 and 3 (arXiv:2307.09288, arXiv:2407.21783), SmolLM 2, and Mistral (arXiv:2310.06825),
which is a Llama that sees a window. All are what `Decoder` is without differences."""

from __future__ import annotations

from collections.abc import Container

from headrace.models.architectures.decoder import Decoder
from headrace.models.architectures.hyperparameters import Hyperparameters
from headrace.ops.program import Program


def build(keys: Hyperparameters, tensors: Container[str]) -> Program:
    """GGUF stores Llama's query and key rows so that rotary pairs are neighbours."""
    experts = keys.integer("expert_count", 0, 1 << 16, default=0)
    if experts:
        raise ValueError(
            f"key {keys.key('expert_count')!r} is {experts}; mixtures of experts are not supported"
        )
    return Decoder.read(keys, tensors, neighbours=True).program()
