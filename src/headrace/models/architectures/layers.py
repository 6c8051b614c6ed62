"""The parts decoder-only transformers are made of, as operations over these buffers:

x: the residual stream; h: a normed copy of it; q, k, v and a: queries, keys, values and
what attention gives; gate and up: the gated layer; y: what a layer adds to the stream, where
it is normed first; scores and routes: of a layer's experts; last: the rows whose logits are wanted.

Tensor names are GGUF's. A bias that the file has is always applied.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Literal

from headrace.models.architectures.hyperparameters import Hyperparameters, Sizes
from headrace.ops.program import (
    Attention,
    Gate,
    Linear,
    Logits,
    Norm,
    Op,
    Program,
    Projection,
    Rope,
    RotaryKV,
    SelectRows,
)

Activation = Literal["silu", "gelu"]
EMBEDDING = "token_embd.weight"
_ACTIVATIONS: dict[str, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_new": "gelu",
}


def read_activation(keys: Hyperparameters, usual: str) -> Activation:
    """What the gate goes through; GGUF files leave it to the family. Raises ValueError naming
    one we do not have."""
    name = keys.text("activation", usual)
    if name not in _ACTIVATIONS:
        raise ValueError(
            f"key {keys.key('activation')!r} is {name!r}; {', '.join(_ACTIVATIONS)} are supported"
        )
    return _ACTIVATIONS[name]


def attention(
    layer: int,
    sizes: Sizes,
    tensors: Container[str],
    *,
    rope: Rope | None,
    scale: float,
    qkv_bias: bool = False,
    head_norms: bool = False,
    window: int | None = None,
    softcap: float | None = None,
) -> Iterator[Op]:
    """Attention over h, into a. qkv_bias: biases must be there; head_norms: each head's query
    and key are normed."""
    block = f"blk.{layer}."
    yield Linear(
        "h",
        tuple(
            _projection(out, f"{block}attn_{out}", tensors, bias_needed=qkv_bias) for out in "qkv"
        ),
    )
    if head_norms:
        yield Norm("q", "q", f"{block}attn_q_norm.weight", sizes.eps, groups=sizes.heads)
        yield Norm("k", "k", f"{block}attn_k_norm.weight", sizes.eps, groups=sizes.kv_heads)
    yield RotaryKV("q", "k", "v", layer, rope)
    yield Attention("a", "q", layer, scale, window, softcap)


def attention_output(layer: int, tensors: Container[str], out: Literal["x", "y"]) -> Linear:
    """a, projected: added to x, or into y."""
    name = f"blk.{layer}.attn_output"
    return Linear("a", (_projection(out, name, tensors, accumulate=out == "x"),))


def gated_mlp(
    layer: int, tensors: Container[str], activation: Activation, out: Literal["x", "y"]
) -> Iterator[Op]:
    """The gated feed-forward layer over h (Shazeer, arXiv:2002.05202): added to x, or into y."""
    block = f"blk.{layer}."
    yield Linear(
        "h", tuple(_projection(name, f"{block}ffn_{name}", tensors) for name in ("gate", "up"))
    )
    yield Gate("gate", "gate", "up", activation)
    down = _projection(out, f"{block}ffn_down", tensors, accumulate=out == "x")
    yield Linear("gate", (down,))


def output_head(
    sizes: Sizes, tensors: Container[str], softcap: float | None = None
) -> Iterator[Op]:
    """x to logits. Without an output matrix the embedding serves as one (tied)."""
    yield SelectRows("last", "x")
    yield Norm("last", "last", "output_norm.weight", sizes.eps)
    untied = "output.weight"
    yield Logits("last", untied if untied in tensors else EMBEDDING, softcap)


def program(sizes: Sizes, ops: Iterable[Op], experts: int = 0) -> Program:
    """The operations, with the widths of the buffers they use."""
    widths = {
        "x": sizes.width,
        "h": sizes.width,
        "q": sizes.heads * sizes.head_dim,
        "k": sizes.kv_heads * sizes.head_dim,
        "v": sizes.kv_heads * sizes.head_dim,
        "a": sizes.heads * sizes.head_dim,
        "gate": sizes.feed_forward,
        "up": sizes.feed_forward,
        "y": sizes.width,
        "last": sizes.width,
    }
    if experts:
        widths |= {"scores": experts, "routes": experts}
    return Program(
        ops=tuple(ops),
        buffers=widths,
        layers=sizes.layers,
        heads=sizes.heads,
        kv_heads=sizes.kv_heads,
        head_dim=sizes.head_dim,
        vocab_size=sizes.vocab_size,
        context_length=sizes.context_length,
    )


def _projection(
    out: str,
    name: str,
    tensors: Container[str],
    *,
    bias_needed: bool = False,
    accumulate: bool = False,
) -> Projection:
    bias = f"{name}.bias"
    has_bias = bias_needed or bias in tensors
    return Projection(out, f"{name}.weight", bias if has_bias else None, accumulate)
