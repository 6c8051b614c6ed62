"""A model's sizes and constants, read from a GGUF file's metadata and checked."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np

from headrace.models.architectures import rope as scaling
from headrace.ops.program import Rope

# Far above any real model; they keep a lying header from making us build a huge program.
MAX_LAYERS = 1024
MAX_WIDTH = 1 << 20
MAX_CONTEXT = 1 << 27

FREQUENCIES = "rope_freqs.weight"
LONG_FACTORS, SHORT_FACTORS = "rope_factors_long.weight", "rope_factors_short.weight"


class Hyperparameters:
    """The keys of one architecture: `name` stands for "<architecture>.name" in a GGUF file.

    context_length: tokens that sequences may have where the model is deployed; None: as many
    as the model allows. Every getter raises ValueError naming the key if the value is missing
    (and no default is given), has another type, or lies outside what is asked for.
    """

    def __init__(
        self,
        metadata: Mapping[str, object],
        architecture: str,
        context_length: int | None = None,
    ) -> None:
        self.metadata = metadata
        self.architecture = architecture
        self.context_length = context_length

    def key(self, name: str) -> str:
        return f"{self.architecture}.{name}"

    def has(self, name: str) -> bool:
        return self.metadata.get(self.key(name)) is not None

    def integer(self, name: str, least: int, most: int, default: int | None = None) -> int:
        value = self._value(name, default)
        if type(value) is not int:
            raise self._mistyped(name, "an integer", value)
        if not least <= value <= most:
            raise ValueError(f"key {self.key(name)!r} is {value}; {least} to {most} are accepted")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """A positive, finite float."""
        value = self._value(name, default)
        if type(value) is not float:
            raise self._mistyped(name, "a float", value)
        if not (isfinite(value) and value > 0):
            raise ValueError(f"key {self.key(name)!r} is {value}, not a positive number")
        return value

    def optional_number(self, name: str) -> float | None:
        return self.number(name) if self.has(name) else None

    def text(self, name: str, default: str) -> str:
        value = self._value(name, default)
        if type(value) is not str:
            raise self._mistyped(name, "a string", value)
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self._value(name, default)
        if type(value) is not bool:
            raise self._mistyped(name, "true or false", value)
        return value

    def _value(self, name: str, default: object | None) -> object:
        value = self.metadata.get(self.key(name))
        if value is None:
            value = default
        if value is None:
            raise ValueError(f"key {self.key(name)!r} is missing")
        return value

    def _mistyped(self, name: str, wanted: str, value: object) -> ValueError:
        return ValueError(f"key {self.key(name)!r} must be {wanted}, not {type(value).__name__}")

    def vocab_size(self) -> int:
        """Tokens the tokenizer knows."""
        key = "tokenizer.ggml.tokens"
        tokens = self.metadata.get(key)
        if not isinstance(tokens, list) or not tokens or not isinstance(tokens[0], str):
            raise ValueError(f"key {key!r} must be a non-empty array of strings")
        return len(tokens)

    def longest(self) -> int:
        """Tokens that a sequence of this model may have. YaRN's files often state the context
        that it stretches."""
        stated = self.integer("context_length", 1, MAX_CONTEXT)
        if self.text("rope.scaling.type", "none") != "yarn":
            return stated
        stretched = self._original() * self.number("rope.scaling.factor")
        return max(stated, round(min(stretched, MAX_CONTEXT)))

    def deployed(self) -> int:
        """The longest sequence there can be."""
        return min(self.context_length or MAX_CONTEXT, self.longest())

    def _original(self) -> int:
        stated = self.integer("context_length", 1, MAX_CONTEXT)
        return self.integer("rope.scaling.original_context_length", 1, MAX_CONTEXT, stated)

    def windows(self, layers: int, period: int | None) -> tuple[int | None, ...]:
        """How far back each layer sees; None: to the beginning.

        period: in a family whose layers alternate, the last of so many sees everything.
        """
        name = "attention.sliding_window"
        # A family of alternating layers cannot do without a window.
        window = self.integer(name, 0, MAX_CONTEXT, None if period else 0)
        if not window:
            return (None,) * layers
        pattern = self.metadata.get(self.key("attention.sliding_window_pattern"))
        if isinstance(pattern, np.ndarray) and pattern.dtype == np.bool_:
            if len(pattern) < layers:
                raise ValueError(
                    f"key {self.key('attention.sliding_window_pattern')!r} has {len(pattern)}"
                    f" entries for {layers} layers"
                )
            return tuple(window if slides else None for slides in pattern[:layers])
        period = self.integer("attention.sliding_window_pattern", 0, MAX_LAYERS, period or 0)
        return alternating(window, layers, period)

    def rope(
        self,
        head_dim: int,
        tensors: Container[str],
        *,
        base: float,
        local_base: float | None,
        slides: bool,
        neighbours: bool,
    ) -> Rope:
        """The rotary embedding of layers that see everything or, if it slides, a window.

        base: the family's, where nothing is stated. local_base: the same of the layers that
        slide, in a family where they have one of their own, which is never scaled. neighbours:
        the family's GGUF files have a pair's rows side by side. Raises ValueError on a rope
        we cannot compute.
        """
        plain = Rope(
            base=self.number("rope.freq_base", base),
            dims=even_dims(self.key("rope.dimension_count"), self._dims(head_dim)),
            interleaved=neighbours,
        )
        if slides and local_base is not None:
            return replace(plain, base=self.number("rope.freq_base_swa", local_base))
        return self._scaled(plain, tensors)

    def _dims(self, head_dim: int) -> int:
        return self.integer("rope.dimension_count", 2, head_dim, default=head_dim)

    def _scaled(self, plain: Rope, tensors: Container[str]) -> Rope:
        magnitude = self.number("rope.scaling.attn_factor", 1.0)
        if FREQUENCIES in tensors:
            plain = replace(plain, factors=FREQUENCIES)
        kind = self.text("rope.scaling.type", "none" if LONG_FACTORS in tensors else "linear")
        if kind == "longrope" or (kind == "none" and LONG_FACTORS in tensors):
            long = self.deployed() > self._original()
            return replace(
                plain, factors=LONG_FACTORS if long else SHORT_FACTORS, magnitude=magnitude
            )
        if kind == "none":
            return replace(plain, magnitude=magnitude)
        factor = self.number("rope.scaling.factor", self.number("rope.scale_linear", 1.0))
        if kind == "linear":
            return replace(scaling.linear(plain, factor), magnitude=magnitude)
        if kind == "yarn":
            return self._yarn(plain, factor, magnitude)
        raise ValueError(
            f"key {self.key('rope.scaling.type')!r} is {kind!r}; none, linear, yarn and longrope"
            " are supported"
        )

    def _yarn(self, plain: Rope, factor: float, magnitude: float) -> Rope:
        if self.has("rope.scaling.yarn_log_multiplier"):
            raise ValueError(
                f"key {self.key('rope.scaling.yarn_log_multiplier')!r} is not supported"
            )
        magnitude *= self.number("rope.scaling.yarn_attn_factor", 1.0)
        return scaling.yarn(
            plain,
            factor,
            self._original(),
            magnitude=magnitude * scaling.yarn_magnitude(factor),
            fast=self.number("rope.scaling.yarn_beta_fast", 32.0),
            slow=self.number("rope.scaling.yarn_beta_slow", 1.0),
            share=self.number("rope.scaling.yarn_ext_factor", 1.0),
        )


def even_dims(key: str, dims: int) -> int:
    if dims % 2:
        raise ValueError(f"key {key!r} is {dims}; it must be even")
    return dims


def alternating(window: int, layers: int, period: int) -> tuple[int | None, ...]:
    """The last of every `period` layers sees everything; with period 0 none does."""
    return tuple(
        None if period and layer % period == period - 1 else window for layer in range(layers)
    )


@dataclass(frozen=True, slots=True)
class Sizes:
    """What every decoder-only transformer has. width: of the residual stream; feed_forward: of
    the gated layer; vocab_size: tokens the tokenizer knows; eps: of all norms.
    """

    layers: int
    width: int
    feed_forward: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab_size: int
    context_length: int
    eps: float

    @classmethod
    def read(cls, keys: Hyperparameters) -> Sizes:
        """Raises ValueError naming the key that is missing or absurd."""
        width = keys.integer("embedding_length", 1, MAX_WIDTH)
        heads = keys.integer("attention.head_count", 1, width)
        kv_heads = keys.integer("attention.head_count_kv", 1, heads, default=heads)
        if heads % kv_heads:
            raise ValueError(
                f"key {keys.key('attention.head_count_kv')!r} is {kv_heads},"
                f" which does not divide the {heads} heads"
            )
        return cls(
            layers=keys.integer("block_count", 1, MAX_LAYERS),
            width=width,
            feed_forward=keys.integer("feed_forward_length", 1, MAX_WIDTH),
            heads=heads,
            kv_heads=kv_heads,
            head_dim=_head_dim(keys, width, heads),
            vocab_size=keys.vocab_size(),
            context_length=keys.longest(),
            eps=_eps(keys),
        )


def _head_dim(keys: Hyperparameters, width: int, heads: int) -> int:
    key = keys.key("attention.key_length")
    if not keys.has("attention.key_length") and width % heads:
        raise ValueError(
            f"key {keys.key('attention.head_count')!r} is {heads}, which does not divide"
            f" the width {width}, and {key!r} is missing"
        )
    head_dim = keys.integer("attention.key_length", 2, MAX_WIDTH, default=width // heads)
    if head_dim % 2:
        raise ValueError(f"heads of {head_dim} values are odd; rotary embedding needs pairs")
    value_length = keys.integer("attention.value_length", 2, MAX_WIDTH, default=head_dim)
    if value_length != head_dim:
        raise ValueError(
            f"key {keys.key('attention.value_length')!r} is {value_length}, but keys have"
            f" {head_dim} values; unequal lengths are not supported"
        )
    return head_dim


def _eps(keys: Hyperparameters) -> float:
    name = "attention.layer_norm_rms_epsilon"
    eps = keys.number(name)
    if eps >= 1:
        raise ValueError(f"key {keys.key(name)!r} is {eps}; a number below 1 is expected")
    return eps
