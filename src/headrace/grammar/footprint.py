"""What grammars take in each process that compiles them, the serving one and the worker."""

from __future__ import annotations

from headrace.grammar.counted import counted

TABLE_TOKEN = 512
"""Bytes of a vocabulary's tables for each of its tokens, at most; 380 to 440 were measured."""

CACHE_BYTES = 64 << 20
"""Of compiled grammars that are kept."""

COUNTED = 4096
"""Bytes of the states by which a grammar counts one character, at most; 3,300 were measured."""


def grammar_bytes(vocab_size: int) -> int:
    """At most, with one vocabulary."""
    return TABLE_TOKEN * vocab_size + CACHE_BYTES


def compiled_bytes(text: str) -> int:
    """About what a compiled grammar takes before it is used."""
    return 200_000 + 50 * len(text)


def state_bytes(text: str) -> int:
    """About what the states take that answers may bring a compiled grammar to."""
    return COUNTED * counted(text)
