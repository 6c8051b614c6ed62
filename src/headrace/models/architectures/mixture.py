"""Layers that are mixtures of experts (Shazeer, arXiv:1701.06538; Mixtral, arXiv:2401.04088)."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Literal

from headrace.models.architectures.hyperparameters import MAX_WIDTH, Hyperparameters, Sizes
from headrace.ops.program import Expert, Experts, Linear, Op, Projection, Route

MAX_EXPERTS = 1024
SOFTMAX = 1
"""What GGUF calls it among the gating functions; 0 is for not stated."""


@dataclass(frozen=True, slots=True)
class Mixture:
    """`used` of `count` experts, each a gated layer with `width` values within. normalise:
    their weights add up to 1, as if the softmax had been taken of theirs alone."""

    count: int
    used: int
    width: int
    normalise: bool

    @classmethod
    def read(cls, keys: Hyperparameters, sizes: Sizes) -> Mixture | None:
        """None if the keys name no experts. Raises ValueError naming the key that asks for a
        mixture we cannot compute."""
        count = keys.integer("expert_count", 0, MAX_EXPERTS, default=0)
        if not count:
            return None
        for name, usual in (
            ("expert_shared_count", 0),
            ("expert_group_count", 1),
            ("expert_gating_func", SOFTMAX),
        ):
            if keys.integer(name, 0, MAX_EXPERTS, default=usual) not in (0, usual):
                raise ValueError(f"key {keys.key(name)!r} asks for what is not supported")
        if keys.number("expert_weights_scale", 1.0) != 1.0:
            raise ValueError(f"key {keys.key('expert_weights_scale')!r} must be 1")
        return cls(
            count=count,
            used=keys.integer("expert_used_count", 1, count),
            width=keys.integer("expert_feed_forward_length", 1, MAX_WIDTH, sizes.feed_forward),
            normalise=keys.flag("expert_weights_norm", True),
        )

    def is_in(self, layer: int, tensors: Container[str]) -> bool:
        """Whether this layer is one: some models have plain ones among them."""
        return _router(layer) in tensors

    def ops(
        self, layer: int, activation: Literal["silu", "gelu"], out: Literal["x", "y"]
    ) -> Iterator[Op]:
        """The layer over h: added to x, or into y."""
        block = f"blk.{layer}."
        yield Linear("h", (Projection("scores", _router(layer)),))
        yield Route("routes", "scores", self.used, self.normalise)
        experts = tuple(
            Expert(*(f"{block}ffn_{part}.{number}.weight" for part in ("gate", "up", "down")))
            for number in range(self.count)
        )
        yield Experts(out, "h", "routes", experts, self.width, activation, accumulate=out == "x")


def _router(layer: int) -> str:
    return f"blk.{layer}.ffn_gate_inp.weight"
