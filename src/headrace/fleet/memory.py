"""What a worker's process holds in memory, from its configuration and its model.

An upper bound of what stays resident, computed before anything is loaded, so that a budget can
be kept and what does not fit is refused at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.engine.blocks import blocks_for
from headrace.engine.lookup import INDEX_BYTES
from headrace.engine.scheduler import max_rows
from headrace.fleet.config import WorkerConfig
from headrace.fleet.cores import usable_cores
from headrace.grammar.footprint import grammar_bytes
from headrace.models.formats import decoding_bytes, packed_bytes
from headrace.models.model import Model
from headrace.ops.checks import required_weights, used_experts
from headrace.ops.program import Experts, Program, RotaryKV
from headrace.units import MIB

RUNTIME = 96 * MIB
"""Interpreter, libraries and requests on their way. The reserve is this and what follows."""

TOKENIZER = 1280
"""Bytes of tokenizer for each token of the vocabulary."""

ROWS_OF_TILE = 12
"""Rows of one expert begin at a whole tile."""

REQUEST_TOKEN = 16
"""Bytes of a token of a request: on its way here, in its prompt, among its sequence's tokens and
in the names of their blocks. As many requests as may run at once are here, of any length."""

MOST_PARTS = 1 << 24
"""Floats that attention's parts may take in a step of several tokens, as native code has it."""

THREAD = 4 * MIB
"""Scratch memory of a compute thread, beside what it needs to sample."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes. reserve: everything but the model's. weights: as kernels read them. loading: the
    most that weights take while they are read, decoded and packed one by one. buffers: of a
    step of the largest size.
    """

    reserve: int
    weights: int
    loading: int
    buffers: int

    def peak(self, kv: int) -> int:
        """The most that the process ever holds, with a full KV cache of that size."""
        return self.reserve + max(self.loading, self.weights + self.buffers + kv)

    def kv_within(self, budget: int) -> int:
        """Bytes left for the KV cache; negative if the rest does not fit either."""
        return budget - self.reserve - self.weights - self.buffers


def memory_of(config: WorkerConfig, model: Model, draft: Model | None = None) -> Memory:
    """draft: a second model in the same process, if there is one."""
    vocabulary = model.program.vocab_size
    threads = config.threads or usable_cores()
    context = config.context_length or model.context_length
    tokens = min(config.max_step_tokens, context)
    weights = loading = buffers = 0
    for each in (model, draft):
        if each is None:
            continue
        for name in dict.fromkeys(name for name, _ in required_weights(each.program)):
            tensor = each.tensors[name]
            weights += packed_bytes(tensor)
            loading = max(loading, weights + decoding_bytes(tensor))
        buffers += _buffers(each.program, config.max_step_tokens)
        buffers += 4 * _parts(each.program, tokens, context, threads)
        buffers += _logits(each.program, config)
    if config.chunk_beside:
        buffers += _buffers(model.program, config.chunk_beside)
        buffers += 4 * _parts(model.program, config.chunk_beside, context, threads)
        buffers += 3 * 4 * context  # its tokens, their blocks among them
    if config.speculate == "ngram":
        buffers += config.max_sequences * INDEX_BYTES
    sampling = 16 * vocabulary  # adjusted logits, their exponentials, candidates
    return Memory(
        reserve=RUNTIME
        + TOKENIZER * vocabulary
        + grammar_bytes(vocabulary)
        + REQUEST_TOKEN * config.max_sequences * context,
        weights=weights,
        loading=loading,
        buffers=buffers
        + 3 * 4 * config.max_sequences * blocks_for(context)  # tables: engine, runner, kernels
        + threads * (THREAD + sampling),
    )


def _parts(program: Program, tokens: int, context: int, threads: int) -> int:
    """Floats of what each split of the cache gives where attention has too few tokens for the
    threads (`Pass::begin` in native/src/pass.cpp)."""
    split, lanes = 256, 16
    tokens = min(tokens, (4 * threads - 1) // program.kv_heads)
    part = -(-(program.head_dim + 2) // lanes) * lanes
    of_token = program.heads * -(-context // split) * part
    return max(min(tokens * of_token, MOST_PARTS), min(tokens, 1) * of_token)


def _buffers(program: Program, tokens: int) -> int:
    """For so many tokens: every buffer as floats and as codes with their scales and sums; the
    turns of each rope."""
    width = sum(program.buffers.values())
    ropes = {op.rope for op in program.ops if isinstance(op, RotaryKV) and op.rope is not None}
    turns = sum(2 * 4 * rope.dims for rope in ropes)
    experts = (_expert_bytes(program, op, tokens) for op in _experts(program))
    return tokens * (6 * width + turns) + max(experts, default=0)


def _logits(program: Program, config: WorkerConfig) -> int:
    return 4 * max_rows(config.max_sequences, config.max_guesses) * (program.vocab_size + 256)


def _experts(program: Program) -> Iterator[Experts]:
    return (op for op in program.ops if isinstance(op, Experts))


def _expert_bytes(program: Program, experts: Experts, tokens: int) -> int:
    """Places for the rows of each expert, one after the other, which all layers share."""
    rows = tokens * used_experts(program, experts)
    places = rows + ROWS_OF_TILE * (1 + min(len(experts.experts), rows))
    width, out = program.buffers[experts.x], program.buffers[experts.out]
    # As floats and as codes before and between the products, as floats alone after them.
    return places * (6 * width + 10 * experts.width + 4 * out)
