"""How rotary embedding is stretched beyond the context a model was first trained on.

Each function takes a plain rope and gives the scaled one. `original`: that first context, in
tokens; `factor`: how many times longer the new one is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, floor, log, pi, sqrt

from headrace.ops.program import Rope


def linear(rope: Rope, factor: float) -> Rope:
    """Positions lie closer together (Chen et al., arXiv:2306.15595)."""
    return replace(rope, scale=1.0 / factor)


def dynamic(rope: Rope, factor: float, original: int, context: int) -> Rope:
    """The base grows with the context beyond the original ("dynamic NTK").

    Others grow it with each sequence. Keys in a cache would then have been turned by another
    base than the queries they meet, and a token's logits would depend on what comes after it;
    so here one base serves all, that of the longest sequence there can be.
    """
    if context <= original:
        return rope
    growth = factor * context / original - (factor - 1)
    return replace(rope, base=rope.base * growth ** (rope.dims / (rope.dims - 2)))


def llama3(rope: Rope, factor: float, low: float, high: float, original: int) -> Rope:
    """Llama 3.1: what turns less than `low` times in the original context is slowed down by the
    factor, what turns more than `high` times stays, and between them the speed is mixed."""

    def divisor(turns: float) -> float:
        kept = min(max((turns - low) / (high - low), 0.0), 1.0)
        return 1.0 / ((1.0 - kept) / factor + kept)

    turns = [original / (2 * pi * rope.base ** (2 * i / rope.dims)) for i in range(rope.dims // 2)]
    return replace(rope, divisors=tuple(map(divisor, turns)))


def yarn(
    rope: Rope,
    factor: float,
    original: int,
    *,
    magnitude: float,
    fast: float = 32.0,
    slow: float = 1.0,
    truncate: bool = True,
    share: float = 1.0,
) -> Rope:
    """YaRN (Peng et al., arXiv:2309.00071): between the pair that turns `fast` times in the
    original context and the one that turns `slow` times, the factor sets in linearly. truncate:
    these pairs are whole numbers. share: of it all (llama.cpp's ext_factor)."""

    def pair(turns: float) -> float:
        return rope.dims * log(original / (turns * 2 * pi)) / (2 * log(rope.base))

    first, last = pair(fast), pair(slow)
    if truncate:
        first, last = floor(first), ceil(last)
    first, last = max(first, 0), min(last, rope.dims - 1)

    def divisor(i: int) -> float:
        slowed = min(max((i - first) / max(last - first, 0.001), 0.0), 1.0)
        kept = (1.0 - slowed) * share
        return 1.0 / ((1.0 - kept) / factor + kept)

    return replace(
        rope, divisors=tuple(divisor(i) for i in range(rope.dims // 2)), magnitude=magnitude
    )


def yarn_magnitude(factor: float, weight: float = 1.0) -> float:
    """By how much YaRN sharpens attention, half of it in queries and half in keys."""
    return 1.0 if factor <= 1 else 0.1 * weight * log(factor) + 1.0


def longrope(rope: Rope, divisors: Sequence[float], magnitude: float) -> Rope:
    """LongRoPE (Ding et al., arXiv:2402.13753): divisors found by search, for sequences within
    the original context (short) or beyond it (long).

    As `dynamic`, which of the two is decided once for all sequences, by the longest there can be.
    """
    return replace(rope, divisors=tuple(divisors), magnitude=magnitude)


def longrope_magnitude(factor: float, original: int) -> float:
    return 1.0 if factor <= 1 else sqrt(1 + log(factor) / log(original))
