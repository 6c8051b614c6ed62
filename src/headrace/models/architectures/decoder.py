"""A decoder-only transformer as its family's differences from Llama (arXiv:2302.13971)."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from headrace.models.architectures.hyperparameters import Hyperparameters, Sizes
from headrace.models.architectures.layers import (
    EMBEDDING,
    Activation,
    attention,
    attention_output,
    gated_mlp,
    output_head,
    program,
    read_activation,
)
from headrace.models.architectures.mixture import Mixture
from headrace.ops.program import Add, Embed, Norm, Op, Program, Rope


@dataclass(frozen=True, slots=True)
class Decoder:
    """Norm, attention, norm, gated feed-forward, all residual: as Llama has it, unless said.

    scale: of attention's scores. windows, ropes: of each layer (see `Hyperparameters`); without
    a rope a layer knows no positions. qkv_bias: query, key and value have biases. head_norms:
    heads' queries and keys are normed. sandwich: what a layer adds to the stream is normed
    too. mixture: what feed-forward layers are where they are mixtures of experts.
    embedding_scale multiplies what is looked up; the softcaps are of scores and of logits.
    """

    sizes: Sizes
    tensors: Container[str]
    scale: float
    windows: Sequence[int | None]
    ropes: Sequence[Rope | None]
    activation: Activation = "silu"
    qkv_bias: bool = False
    head_norms: bool = False
    sandwich: bool = False
    mixture: Mixture | None = None
    embedding_scale: float = 1.0
    score_softcap: float | None = None
    logit_softcap: float | None = None

    @classmethod
    def read(
        cls,
        keys: Hyperparameters,
        tensors: Container[str],
        *,
        neighbours: bool = False,
        rope_base: float = 10000.0,
        local_rope_base: float | None = None,
        period: int | None = None,
        activation: str = "silu",
    ) -> Decoder:
        """What the keys say; the rest is for `dataclasses.replace`.

        neighbours, rope_base, local_rope_base, period: see `Hyperparameters.rope` and
        `windows`. activation: the family's, in config.json's words.
        """
        sizes = Sizes.read(keys)
        windows = keys.windows(sizes.layers, period)

        def rope(slides: bool) -> Rope:
            try:
                return keys.rope(
                    sizes.head_dim,
                    tensors,
                    base=rope_base,
                    local_base=local_rope_base,
                    slides=slides,
                    neighbours=neighbours,
                )
            except ArithmeticError as error:
                raise ValueError(f"the rope's parameters make no rope: {error}") from error

        ropes = {slides: rope(slides) for slides in {window is not None for window in windows}}
        return cls(
            sizes=sizes,
            tensors=tensors,
            scale=keys.number("attention.scale", sizes.head_dim**-0.5),
            windows=windows,
            ropes=[ropes[window is not None] for window in windows],
            activation=read_activation(keys, activation),
        )

    def program(self) -> Program:
        experts = self.mixture.count if self.mixture else 0
        return program(self.sizes, self._ops(), experts)

    def _ops(self) -> Iterator[Op]:
        yield Embed("x", EMBEDDING, self.embedding_scale)
        for layer in range(self.sizes.layers):
            block = f"blk.{layer}."
            yield self._norm("h", "x", f"{block}attn_norm")
            yield from self._attention(layer)
            yield from self._added(f"{block}post_attention_norm")
            yield self._norm("h", "x", f"{block}ffn_norm")
            yield from self._feed_forward(layer)
            yield from self._added(f"{block}post_ffw_norm")
        yield from output_head(self.sizes, self.tensors, self.logit_softcap)

    @property
    def _out(self) -> Literal["x", "y"]:
        return "y" if self.sandwich else "x"

    def _attention(self, layer: int) -> Iterator[Op]:
        yield from attention(
            layer,
            self.sizes,
            self.tensors,
            rope=self.ropes[layer],
            scale=self.scale,
            qkv_bias=self.qkv_bias,
            head_norms=self.head_norms,
            window=self.windows[layer],
            softcap=self.score_softcap,
        )
        yield attention_output(layer, self.tensors, self._out)

    def _feed_forward(self, layer: int) -> Iterator[Op]:
        if self.mixture and self.mixture.is_in(layer, self.tensors):
            return self.mixture.ops(layer, self.activation, self._out)
        return gated_mlp(layer, self.tensors, self.activation, self._out)

    def _added(self, norm: str) -> Iterator[Op]:
        if self.sandwich:
            yield self._norm("y", "y", norm)
            yield Add("x", "y")

    def _norm(self, out: str, x: str, name: str) -> Norm:
        return Norm(out, x, f"{name}.weight", self.sizes.eps)
