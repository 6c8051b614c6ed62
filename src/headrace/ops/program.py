"""The program a model compiles to: typed operations over named buffers and weights.

A buffer is a float32 matrix [rows, width]. Until `SelectRows` the rows are the step's
tokens; after it they are the tokens whose logits are wanted. Nothing here depends on
a batch, so a backend may plan memory and threads once, at load.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Embed:
    """out[t] = scale * weight[token[t]]"""

    out: str
    weight: str
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Norm:
    """Root-mean-square norm, each row cut into `groups` equal parts normed apart.

    `weight` has width/groups values. out may be x. groups = number of heads gives the
    per-head query and key norms of Gemma 3 and Qwen 3.
    """

    out: str
    x: str
    weight: str
    eps: float
    groups: int = 1


@dataclass(frozen=True, slots=True)
class Projection:
    """out (+)= x @ weight.T + bias; `accumulate` adds to what out holds (residual)."""

    out: str
    weight: str
    bias: str | None = None
    accumulate: bool = False


@dataclass(frozen=True, slots=True)
class Linear:
    """Projections that share one input (query, key and value; gate and up)."""

    x: str
    projections: tuple[Projection, ...]


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary embedding of the first `dims` values of a head (RoFormer, arXiv:2104.09864).

    Pair i turns by scale * position / (base ** (2 i / dims) * divisors[i] * factors[i]), and its
    length is multiplied by `magnitude`. `interleaved` pairs (2i, 2i+1) as Llama's GGUF files lay
    them out; else (i, i + dims/2), as NeoX does.
    """

    base: float
    dims: int
    interleaved: bool
    factors: str | None = None  # name of a float32[dims/2] weight
    scale: float = 1.0  # positions are multiplied by it (linear scaling)
    divisors: tuple[float, ...] = ()  # dims/2 numbers, or none
    magnitude: float = 1.0


@dataclass(frozen=True, slots=True)
class RotaryKV:
    """Rotate q in place; rotate k and write k and v into the KV cache of `layer`."""

    q: str
    k: str
    v: str
    layer: int
    rope: Rope | None


@dataclass(frozen=True, slots=True)
class Attention:
    """Causal grouped-query attention of q over the KV cache of `layer`.

    A query at position p sees positions max(0, p - window + 1) .. p (window None: 0 .. p).
    softcap c replaces a score s with c * tanh(s / c).
    """

    out: str
    q: str
    layer: int
    scale: float
    window: int | None = None
    softcap: float | None = None


@dataclass(frozen=True, slots=True)
class Gate:
    """out = activation(gate) * up; gelu is the tanh approximation."""

    out: str
    gate: str
    up: str
    activation: Literal["silu", "gelu"]


@dataclass(frozen=True, slots=True)
class Route:
    """out[e] = softmax(x)[e] for the `used` likeliest experts of a row, 0 for all others.

    Of equals the first is chosen. x and out have a value an expert. `normalise` divides by the
    sum of the chosen, as if the softmax were taken of these alone.
    """

    out: str
    x: str
    used: int
    normalise: bool


@dataclass(frozen=True, slots=True)
class Expert:
    """Names of the matrices of one expert, a gated layer."""

    gate: str
    up: str
    down: str


@dataclass(frozen=True, slots=True)
class Experts:
    """out (+)= the sum over a row's experts e of routes[e] * e(x) (Shazeer, arXiv:1701.06538).

    e(x) = (activation(x @ gate.T) * (x @ up.T)) @ down.T, with `width` values between. routes is
    what a `Route` left: experts whose route is 0 are not computed. The sum goes by ascending
    number of the expert, beginning with what out holds if `accumulate`, else with 0.
    """

    out: str
    x: str
    routes: str
    experts: tuple[Expert, ...]
    width: int
    activation: Literal["silu", "gelu"]
    accumulate: bool = False


@dataclass(frozen=True, slots=True)
class Add:
    """x += y"""

    x: str
    y: str


@dataclass(frozen=True, slots=True)
class SelectRows:
    """out = the rows of x whose logits the batch asks for."""

    out: str
    x: str


@dataclass(frozen=True, slots=True)
class Logits:
    """logits = x @ weight.T, softcapped if asked; the program's last operation."""

    x: str
    weight: str
    softcap: float | None = None


Op = (
    Embed
    | Norm
    | Linear
    | RotaryKV
    | Attention
    | Gate
    | Route
    | Experts
    | Add
    | SelectRows
    | Logits
)


@dataclass(frozen=True, slots=True)
class Program:
    """A model as data: its operations in order and the sizes they need.

    buffers: name -> width. vocab_size: how many logits rows the tokenizer knows; ids
    from vocab_size up (padding of the output matrix) are never sampled.
    """

    ops: tuple[Op, ...]
    buffers: dict[str, int]
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab_size: int
    context_length: int
