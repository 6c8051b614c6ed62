"""A model's sizes and constants, read from GGUF metadata and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

# Far above any real model; they keep a lying header from making us build a huge program.
MAX_LAYERS = 1024
MAX_WIDTH = 1 << 20
MAX_CONTEXT = 1 << 27


class Hyperparameters:
    """The keys of one architecture: `name` stands for "<architecture>.name" in the file.

    Every getter raises ValueError naming the key if the value is missing (and no default is
    given), has another type, or lies outside what is asked for.
    """

    def __init__(self, metadata: Mapping[str, object], architecture: str) -> None:
        self.metadata = metadata
        self.architecture = architecture

    def key(self, name: str) -> str:
        return f"{self.architecture}.{name}"

    def integer(self, name: str, least: int, most: int, default: int | None = None) -> int:
        key = self.key(name)
        value = self.metadata.get(key, default)
        if value is None:
            raise ValueError(f"key {key!r} is missing")
        if type(value) is not int:
            raise ValueError(f"key {key!r} must be an integer, not {_kind(value)}")
        if not least <= value <= most:
            raise ValueError(f"key {key!r} is {value}; {least} to {most} are accepted")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """A positive, finite float."""
        key = self.key(name)
        value = self.metadata.get(key, default)
        if value is None:
            raise ValueError(f"key {key!r} is missing")
        if type(value) is not float:
            raise ValueError(f"key {key!r} must be a float, not {_kind(value)}")
        if not (isfinite(value) and value > 0):
            raise ValueError(f"key {key!r} is {value}, not a positive number")
        return value

    def optional_number(self, name: str) -> float | None:
        return self.number(name) if self.key(name) in self.metadata else None

    def text(self, name: str, default: str) -> str:
        key = self.key(name)
        value = self.metadata.get(key, default)
        if type(value) is not str:
            raise ValueError(f"key {key!r} must be a string, not {_kind(value)}")
        return value


def _kind(value: object) -> str:
    return type(value).__name__


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
            vocab_size=_vocab_size(keys.metadata),
            context_length=keys.integer("context_length", 1, MAX_CONTEXT),
            eps=_eps(keys),
        )


def _head_dim(keys: Hyperparameters, width: int, heads: int) -> int:
    key = keys.key("attention.key_length")
    if key not in keys.metadata and width % heads:
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


def _vocab_size(metadata: Mapping[str, object]) -> int:
    key = "tokenizer.ggml.tokens"
    tokens = metadata.get(key)
    if not isinstance(tokens, list) or not tokens or not isinstance(tokens[0], str):
        raise ValueError(f"key {key!r} must be a non-empty array of strings")
    return len(tokens)


def _eps(keys: Hyperparameters) -> float:
    name = "attention.layer_norm_rms_epsilon"
    eps = keys.number(name)
    if eps >= 1:
        raise ValueError(f"key {keys.key(name)!r} is {eps}; a number below 1 is expected")
    return eps
