"""What grammars take in each process that compiles them, the serving one and the worker."""

from __future__ import annotations

TABLE_TOKEN = 512
"""Bytes of a vocabulary's tables for each of its tokens, at most; 380 to 440 were measured."""

CACHE_BYTES = 64 << 20
"""Of compiled grammars that are kept."""


def grammar_bytes(vocab_size: int) -> int:
    """At most, with one vocabulary."""
    return TABLE_TOKEN * vocab_size + CACHE_BYTES
