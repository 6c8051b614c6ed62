"""Matrices that a file stores as one, described as the parts that programs name.

The rows of query, key and value, or of gate and up, follow each other, and so do the matrices of
experts, so a part is a tensor that begins further on: nothing is copied, whatever it is quantised
to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headrace.models.architectures.hyperparameters import Sizes
from headrace.models.architectures.mixture import MAX_EXPERTS
from headrace.models.gguf import Tensor


def take_apart(tensors: Mapping[str, Tensor], sizes: Sizes) -> dict[str, Tensor]:
    """tensors, with `attn_qkv` as attn_q, attn_k and attn_v, and an `ffn_up` of twice the rows as
    ffn_gate and ffn_up (as Phi 3 has them), and `ffn_up_exps` as ffn_up.0, ffn_up.1 and so on.
    Raises ValueError on a fused tensor of other size."""
    queries, keys = sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    qkv = {"attn_q": queries, "attn_k": keys, "attn_v": keys}
    gate_up = {"ffn_gate": sizes.feed_forward, "ffn_up": sizes.feed_forward}
    apart: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if ".attn_qkv." in name:
            apart |= _parts(name, "attn_qkv", tensor, qkv)
        elif ".ffn_up." in name and tensor.shape[0] == 2 * sizes.feed_forward:
            apart |= _parts(name, "ffn_up", tensor, gate_up)
        elif "_exps." in name:
            apart |= _experts(name, tensor)
        else:
            apart[name] = tensor
    return apart


def _experts(name: str, tensor: Tensor) -> dict[str, Tensor]:
    if len(tensor.shape) != 3 or not 0 < tensor.shape[0] <= MAX_EXPERTS:
        raise ValueError(
            f"tensor {tensor.name!r} has shape {tensor.shape}; a matrix for each of up to"
            f" {MAX_EXPERTS} experts is needed"
        )
    count, *shape = tensor.shape
    size = tensor.size // count
    return {
        name.replace("_exps.", f".{number}."): replace(
            tensor, shape=tuple(shape), start=tensor.start + number * size, size=size
        )
        for number in range(count)
    }


def _parts(name: str, fused: str, tensor: Tensor, rows: Mapping[str, int]) -> dict[str, Tensor]:
    count = tensor.shape[0]
    if count != sum(rows.values()):
        raise ValueError(
            f"tensor {tensor.name!r} has {count} rows; {' + '.join(map(str, rows.values()))}"
            " are needed"
        )
    parts, row = {}, tensor.size // count
    start = tensor.start
    for part, height in rows.items():
        shape = (height, *tensor.shape[1:])
        parts[name.replace(fused, part)] = replace(
            tensor, shape=shape, start=start, size=height * row
        )
        start += height * row
    return parts
