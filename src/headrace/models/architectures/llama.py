"""Llama 2 and 3 (arXiv:2307.09288, arXiv:2407.21783), SmolLM 2, Mistral (arXiv:2310.06825), which
is a Llama that sees a window, and Mixtral (arXiv:2401.04088), a Mistral whose layers are mixtures
of experts. All are what `Decoder` is without differences."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from headrace.models.architectures.decoder import Decoder
from headrace.models.architectures.hyperparameters import Hyperparameters
from headrace.models.architectures.mixture import Mixture
from headrace.ops.program import Program


def build(keys: Hyperparameters, tensors: Container[str]) -> Program:
    """GGUF stores Llama's query and key rows so that rotary pairs are neighbours."""
    decoder = Decoder.read(keys, tensors, neighbours=True)
    return replace(decoder, mixture=Mixture.read(keys, decoder.sizes)).program()
