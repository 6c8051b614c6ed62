"""SmolLM 3: Llama, but every fourth layer knows no positions (NoPE, arXiv:2305.19466)."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from headrace.models.architectures.decoder import Decoder
from headrace.models.architectures.hyperparameters import MAX_LAYERS, Hyperparameters
from headrace.ops.program import Program


def build(keys: Hyperparameters, tensors: Container[str]) -> Program:
    decoder = Decoder.read(keys, tensors, neighbours=True, rope_base=2e6)
    turned = _turned_layers(keys, decoder.sizes.layers)
    ropes = [rope if turns else None for rope, turns in zip(decoder.ropes, turned, strict=True)]
    return replace(decoder, ropes=ropes).program()


def _turned_layers(keys: Hyperparameters, layers: int) -> list[bool]:
    """Which layers turn queries and keys: 1 in `no_rope_layers`, whatever its name says."""
    period = keys.integer("no_rope_layer_interval", 1, MAX_LAYERS, default=4)
    if not keys.has("no_rope_layers"):
        return [layer % period != period - 1 for layer in range(layers)]
    flags = keys.metadata[keys.key("no_rope_layers")]
    if not isinstance(flags, list) or len(flags) < layers or set(flags) - {0, 1}:
        raise ValueError(
            f"key {keys.key('no_rope_layers')!r} must be a list of 0 or 1 for each layer"
        )
    return [bool(flag) for flag in flags[:layers]]
