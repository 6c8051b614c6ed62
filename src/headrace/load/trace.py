"""A public load trace as requests: Mooncake's format (arXiv:2407.00079), scaled to a context.

A line of it is a request: when it came, how long prompt and answer were, and a hash for every
512 tokens of the prompt, equal where prompts begin alike. What the texts were it does not say.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from headrace.load.client import Request

BLOCK = 512
"""Tokens of the trace that share a hash."""


class Line(msgspec.Struct, frozen=True):
    """timestamp: milliseconds since the trace began. Lengths in tokens."""

    timestamp: float
    input_length: int
    output_length: int
    hash_ids: list[int]


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """at: seconds since the first arrival. known: how many of the prompt's first tokens began
    an earlier prompt: what an endless cache that knows all before it would have."""

    at: float
    request: Request
    known: int


def read_trace(path: Path, count: int) -> list[Line]:
    """The first `count` requests. Raises msgspec.ValidationError on a line that is none."""
    with path.open("rb") as file:
        return [msgspec.json.decode(line, type=Line) for line in islice(file, count)]


def arrivals(lines: Sequence[Line], block: int, ids: Sequence[int], seed: int) -> list[Arrival]:
    """The trace with `block` tokens for each of its 512, prompts of token ids drawn from `ids`:
    the same for equal hashes, new for another seed."""
    blocks = _Blocks(block, ids, seed)
    seen: set[int] = set()
    first = lines[0].timestamp if lines else 0.0
    return [
        Arrival(
            at=(line.timestamp - first) / 1000,
            request=Request(
                prompt=blocks.prompt(line),
                output=max(1, round(line.output_length * block / BLOCK)),
            ),
            known=blocks.known(line, seen),
        )
        for line in lines
    ]


class _Blocks:
    def __init__(self, size: int, ids: Sequence[int], seed: int) -> None:
        self.size, self.ids, self.seed = size, ids, seed

    def length(self, line: Line) -> int:
        return max(1, line.input_length * self.size // BLOCK)

    def prompt(self, line: Line) -> list[int]:
        tokens = [token for hash_id in line.hash_ids for token in self._block(hash_id)]
        return tokens[: self.length(line)]

    def known(self, line: Line, seen: set[int]) -> int:
        new = next((i for i, hash_id in enumerate(line.hash_ids) if hash_id not in seen), None)
        seen.update(line.hash_ids)
        length = self.length(line)
        return length if new is None else min(length, new * self.size)

    def _block(self, hash_id: int) -> Iterable[int]:
        return random.Random(f"{self.seed} {hash_id}").choices(self.ids, k=self.size)
