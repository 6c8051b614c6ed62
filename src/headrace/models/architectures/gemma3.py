"""Gemma 3 (arXiv:2503.19786), text: five layers that see a window, then one that sees all.

As Gemma 2, but heads' queries and keys are normed instead of scores capped, and layers that
see a window have a rope of their own, which no scaling touches.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from headrace.models.architectures.decoder import Decoder
from headrace.models.architectures.gemma2 import gemma
from headrace.models.architectures.hyperparameters import Hyperparameters
from headrace.ops.program import Program

_LAYERS_OF_27B = 62


def build(keys: Hyperparameters, tensors: Container[str]) -> Program:
    decoder = Decoder.read(
        keys,
        tensors,
        rope_base=1e6,
        local_rope_base=1e4,
        period=6,
        activation="gelu_pytorch_tanh",
    )
    decoder = replace(decoder, head_norms=True)
    return gemma(decoder, keys, layers_of_27b=_LAYERS_OF_27B).program()
