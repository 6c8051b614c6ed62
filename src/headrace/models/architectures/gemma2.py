"""Gemma 2 (arXiv:2408.00118): layers that see a window and layers that see all alternate.

Embeddings are scaled by sqrt(width), what a layer adds to the stream is normed before and
after, and scores and logits are capped softly. GGUF stores norm weights with the 1 added.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from headrace.models.architectures.decoder import Decoder
from headrace.models.architectures.hyperparameters import Hyperparameters, Sizes
from headrace.ops.program import Program

_LAYERS_OF_27B = 46


def build(keys: Hyperparameters, tensors: Container[str]) -> Program:
    for name in ("attn_logit_softcapping", "final_logit_softcapping"):
        if keys.key(name) not in keys.metadata:
            raise ValueError(f"key {keys.key(name)!r} is missing")
    decoder = Decoder.read(keys, tensors, period=2, activation="gelu_pytorch_tanh")
    return gemma(decoder, keys, layers_of_27b=_LAYERS_OF_27B).program()


def gemma(decoder: Decoder, keys: Hyperparameters, *, layers_of_27b: int) -> Decoder:
    """What Gemma 2 and 3 have in common."""
    return replace(
        decoder,
        scale=_scale(keys, decoder.sizes, layers_of_27b),
        sandwich=True,
        embedding_scale=decoder.sizes.width**0.5,
        score_softcap=keys.optional_number("attn_logit_softcapping"),
        logit_softcap=keys.optional_number("final_logit_softcapping"),
    )


def _scale(keys: Hyperparameters, sizes: Sizes, layers_of_27b: int) -> float:
    """As config.json says; by a head's width; and of the 27B, which its GGUF file does not tell
    apart, by width over heads."""
    usual = sizes.width / sizes.heads if sizes.layers == layers_of_27b else float(sizes.head_dim)
    return float(keys.number("query_pre_attn_scalar", usual) ** -0.5)
