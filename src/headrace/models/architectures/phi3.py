"""Phi 3 (arXiv:2404.14219) and 4 (arXiv:2412.08905): Llama, its matrices fused in the file.

They are taken apart before they come here (`models.fused`). Long contexts go by LongRoPE, and
some models turn only a part of a head.
"""

from __future__ import annotations

from collections.abc import Container

from headrace.models.architectures.decoder import Decoder
from headrace.models.architectures.hyperparameters import Hyperparameters
from headrace.ops.program import Program


def build(keys: Hyperparameters, tensors: Container[str]) -> Program:
    return Decoder.read(keys, tensors).program()
