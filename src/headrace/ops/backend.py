"""What runs a program: the seam between the engine and the kernels.

A step has two halves. `launch` starts the forward pass and returns; `sample` waits for
it and draws one token a logits row. Between them the caller's thread is free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.ops.program import Program
from headrace.ops.weights import WeightSource

BLOCK_SIZE = 32
"""Tokens in one KV block."""

KvCache = Literal["int16", "int8"]
"""How the cache holds keys: codes of so many bits, symmetric around 0, with a float scale for
each position and KV head. Values are 8-bit codes always. int8 makes the cache a third smaller
and costs models with outliers among their keys (Qwen 2) much of their accuracy."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes a backend reserves memory for at load.

    tokens: most tokens in a step; sequences: most sequences in a step;
    blocks: KV blocks in the cache; threads: that compute, the caller's among them;
    kv_cache: how it holds keys; chunk: tokens that go through the layers together of a prompt
    beside the steps (`Executable.begin`), 0 if there shall be none.
    """

    tokens: int
    sequences: int
    blocks: int
    threads: int
    kv_cache: KvCache = "int16"
    chunk: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """The tokens of one step, grouped by sequence.

    tokens, positions: int32 [T]. starts: int32 [S + 1]; sequence s owns tokens
    starts[s] .. starts[s+1], at consecutive positions. block_tables: int32 [S, B], the KV
    block of positions b * BLOCK_SIZE .. at column b (unused columns: any value); its rows are
    contiguous, and may be parts of longer ones.
    logit_rows: int32 [R], indices into tokens, ascending.
    """

    tokens: NDArray[np.int32]
    positions: NDArray[np.int32]
    starts: NDArray[np.int32]
    block_tables: NDArray[np.int32]
    logit_rows: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Prompt:
    """Consecutive tokens of one sequence whose keys and values are wanted, and no logits.

    tokens: int32 [T], at `position` and behind it. blocks: int32 [B], the KV block of positions
    b * BLOCK_SIZE .. at b.
    """

    tokens: NDArray[np.int32]
    position: int
    blocks: NDArray[np.int32]

    def batch(self, first: int = 0, last: int | None = None) -> Batch:
        """Its tokens first .. last, by themselves."""
        tokens = self.tokens[first:last]
        start = self.position + first
        return Batch(
            tokens=tokens,
            positions=np.arange(start, start + len(tokens), dtype=np.int32),
            starts=np.array([0, len(tokens)], np.int32),
            block_tables=self.blocks[None],
            logit_rows=np.zeros(0, np.int32),
        )


@dataclass(frozen=True, slots=True)
class Slice:
    """What a step did for the prompt beside it.

    tokens: of the chunks that it finished, the next ones of the prompt. chunk_seconds: what those
    chunks took, over all their slices. seconds: what of the step was the slice.
    """

    tokens: int = 0
    chunk_seconds: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Adjustments:
    """Sparse changes to logits before sampling, in entry order; float32/int32 [A] each.

    logit = (logit / divide if logit > 0 else logit * divide) + add. divide is the repetition
    penalty (1: none); add carries biases, presence and frequency penalties, and -inf bans.
    """

    row: NDArray[np.int32]
    token: NDArray[np.int32]
    divide: NDArray[np.float32]
    add: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Masks:
    """What some rows may say, others anything (grammars).

    row: int32 [M], each row at most once. allowed: uint32 [M, ceil(vocab/32)], bit 1 = allowed.
    """

    row: NDArray[np.int32]
    allowed: NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to draw a token for each of R logits rows.

    temperature float32 [R] (below 1e-5: greedy, lowest id wins ties); top_k int32 [R]
    (0: all); top_p, min_p float32 [R]; draw float64 [R] in [0, 1); top_logprobs int32 [R]:
    alternatives wanted (-1: not even the drawn token's logprob).
    Logprobs are of the model's own distribution: before adjustments, temperature and cuts.
    """

    temperature: NDArray[np.float32]
    top_k: NDArray[np.int32]
    top_p: NDArray[np.float32]
    min_p: NDArray[np.float32]
    draw: NDArray[np.float64]
    top_logprobs: NDArray[np.int32]
    adjustments: Adjustments | None = None
    masks: Masks | None = None


@dataclass(frozen=True, slots=True)
class Sampled:
    """tokens int32 [R]; logprobs float32 [R] (NaN where not asked for); per row the
    alternatives asked for, most likely first: ids int32 [k], logprobs float32 [k].
    """

    tokens: NDArray[np.int32]
    logprobs: NDArray[np.float32]
    top_ids: list[NDArray[np.int32]] = field(default_factory=list)
    top_logprobs: list[NDArray[np.float32]] = field(default_factory=list)


class NonFiniteLogits(RuntimeError):
    """Some rows' logits hold NaN or infinity, so nothing can be drawn from them.

    rows: indices of those rows. sampled: the step's result; the broken rows have token -1.
    """

    def __init__(self, rows: list[int], sampled: Sampled) -> None:
        super().__init__(f"logits are not finite in row {', '.join(map(str, rows))}")
        self.rows = rows
        self.sampled = sampled


def kv_block_bytes(
    program: Program, row_bytes: Callable[[int, KvCache], int], kv_cache: KvCache
) -> int:
    """Bytes of one KV block: keys and values of BLOCK_SIZE tokens in all layers. row_bytes is
    the backend's `kv_row_bytes`."""
    row = row_bytes(program.head_dim, kv_cache)
    return program.layers * program.kv_heads * BLOCK_SIZE * row


class Executable(Protocol):
    """A loaded program with its weights and KV cache. One step at a time, one caller."""

    def begin(self, prompt: Prompt) -> None:
        """Take up a prompt that is computed beside the steps, instead of one that was under way.

        Raises ValueError if limits.chunk is 0, or the prompt holds what is out of range.
        """
        ...

    def launch(self, batch: Batch, slice_seconds: float = 0.0) -> None:
        """Start the forward pass of `batch`. The arrays may be reused when it returns.

        Before it, the prompt beside the steps is gone on with for about so many seconds, and
        however short they are, by so much that a chunk takes no more slices than it has tokens.
        A batch may be empty then.
        Raises ValueError if the batch exceeds the limits or holds ids out of range.
        """
        ...

    def slice(self) -> Slice:
        """After `sample` or `logits`: what the step did for the prompt beside it."""
        ...

    def sample(self, sampling: Sampling) -> Sampled:
        """Wait for the step that was launched and draw a token for each logits row.

        Raises NonFiniteLogits (the other rows are drawn), ValueError on sampling that does
        not fit the step.
        """
        ...

    def logits(self) -> NDArray[np.float32]:
        """Wait for the step; its logits, float32 [R, V], as a copy."""
        ...


class Backend(Protocol):
    """Turns programs into executables.

    isa: what it computes with, as an operator knows it.
    """

    name: str
    isa: str

    @staticmethod
    def kv_row_bytes(head_dim: int, kv_cache: KvCache) -> int:
        """What the key and the value of one token and KV head take in the cache."""
        ...

    def load(self, program: Program, weights: WeightSource, limits: Limits) -> Executable:
        """Read the weights and reserve all memory. Raises ValueError on misfits, naming
        the weight, and KeyError on a weight that is missing."""
        ...
