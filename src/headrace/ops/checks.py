"""What every backend verifies before it trusts a program's weights or a batch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from headrace.ops.backend import BLOCK_SIZE, Batch, Limits, Masks, Sampling
from headrace.ops.program import (
    Embed,
    Experts,
    Linear,
    Logits,
    Norm,
    Program,
    RotaryKV,
    Route,
)
from headrace.ops.weights import (
    UNIT_COLUMNS,
    DenseWeight,
    Multiples,
    Weight,
    WeightSource,
)


def required_weights(program: Program) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Each weight the program names with the shape it must have.

    Matrices that rows are looked up or scored in (embedding, output) may have more rows than
    the vocabulary: their first dimension is given as vocab_size and means "at least".
    """
    width = program.buffers
    for op in program.ops:
        match op:
            case Embed():
                yield op.weight, (program.vocab_size, width[op.out])
            case Norm():
                yield op.weight, (width[op.x] // op.groups,)
            case Linear():
                for projection in op.projections:
                    yield projection.weight, (width[projection.out], width[op.x])
                    if projection.bias is not None:
                        yield projection.bias, (width[projection.out],)
            case Experts():
                for expert in op.experts:
                    yield expert.gate, (op.width, width[op.x])
                    yield expert.up, (op.width, width[op.x])
                    yield expert.down, (width[op.out], op.width)
            case RotaryKV(rope=rope) if rope is not None and rope.factors is not None:
                yield rope.factors, (rope.dims // 2,)
            case Logits():
                yield op.weight, (program.vocab_size, width[op.x])
            case _:
                pass


def used_experts(program: Program, experts: Experts) -> int:
    """How many of them a row goes through. Raises ValueError if nothing routes to them."""
    for op in program.ops:
        if isinstance(op, Route) and op.out == experts.routes:
            return op.used
    raise ValueError(f"no operation leaves routes in {experts.routes!r}")


def router_weights(program: Program) -> frozenset[str]:
    """Names of the matrices that score experts. They are small, and what they decide is whole:
    they stay float when others are quantised."""
    scores = {op.x for op in program.ops if isinstance(op, Route)}
    return frozenset(
        projection.weight
        for op in program.ops
        if isinstance(op, Linear)
        for projection in op.projections
        if projection.out in scores
    )


def vocabulary_weights(program: Program) -> frozenset[str]:
    """Names of the matrices with one row a token."""
    return frozenset(op.weight for op in program.ops if isinstance(op, Embed | Logits))


def load_weights(program: Program, source: WeightSource) -> Iterator[tuple[str, Weight]]:
    """Each weight of the program once, checked against the shape the program needs.

    Raises ValueError naming the weight that does not fit, KeyError if one is missing.
    """
    seen: dict[str, tuple[int, ...]] = {}
    vocabulary = vocabulary_weights(program)
    for name, shape in required_weights(program):
        if name in seen:
            if seen[name] != shape:
                raise ValueError(f"weight {name!r} is used as {seen[name]} and as {shape}")
            continue
        seen[name] = shape
        weight = source.load(name)
        _check_weight(name, weight, shape, at_least=name in vocabulary)
        yield name, weight


def _check_weight(name: str, weight: Weight, shape: tuple[int, ...], *, at_least: bool) -> None:
    found = weight.values.shape if isinstance(weight, DenseWeight) else weight.codes.shape
    rows_fit = len(found) == len(shape) and (
        found[0] >= shape[0] if at_least else found[0] == shape[0]
    )
    if not rows_fit or found[1:] != shape[1:]:
        least = "at least " if at_least else ""
        raise ValueError(f"weight {name!r} has shape {found}, the program needs {least}{shape}")
    if isinstance(weight, DenseWeight):
        return
    if len(shape) != 2:
        raise ValueError(f"weight {name!r} must be dense")
    n, k = found
    if k % 32:
        raise ValueError(f"weight {name!r} has {k} columns; grouped weights need a multiple of 32")
    grid = (n, k // weight.group)
    minima = grid if weight.minimum is None else weight.minimum.shape
    if weight.scale.shape != grid or minima != grid:
        raise ValueError(
            f"weight {name!r} has scales {weight.scale.shape} and minima {minima},"
            f" its groups need {grid}"
        )
    for numbers in (weight.scale, weight.minimum):
        units = (n, k // UNIT_COLUMNS)
        if isinstance(numbers, Multiples) and (k % UNIT_COLUMNS or numbers.unit.shape != units):
            raise ValueError(
                f"weight {name!r} has {k} columns and units {numbers.unit.shape}: one is needed"
                f" every {UNIT_COLUMNS} columns"
            )
    if weight.minimum is not None and (
        weight.zero or isinstance(weight.minimum, Multiples) != isinstance(weight.scale, Multiples)
    ):
        raise ValueError(
            f"weight {name!r} has minima, which must be kept as its scales are, and so its"
            f" zero must be 0, not {weight.zero}"
        )


def check_batch(batch: Batch, program: Program, limits: Limits) -> None:
    """Raises ValueError with a sentence if the batch could not be run as it is."""
    tokens, positions, starts = batch.tokens, batch.positions, batch.starts
    count, sequences = len(tokens), len(starts) - 1
    if not 1 <= count <= limits.tokens:
        raise ValueError(f"batch of {count} tokens; the limit is {limits.tokens}")
    if not 1 <= sequences <= limits.sequences:
        raise ValueError(f"batch of {sequences} sequences; the limit is {limits.sequences}")
    if len(positions) != count:
        raise ValueError(f"{len(positions)} positions for {count} tokens")
    lengths = np.diff(starts)
    if starts[0] != 0 or starts[-1] != count or lengths.min() < 1:
        raise ValueError("starts must rise from 0 to the number of tokens")
    if tokens.min() < 0 or tokens.max() >= program.vocab_size:
        raise ValueError(f"token id outside the vocabulary of {program.vocab_size}")
    if positions.min() < 0 or positions.max() >= program.context_length:
        raise ValueError(f"position outside the context of {program.context_length}")
    steps = np.diff(positions) == 1
    steps[starts[1:-1] - 1] = True
    if not steps.all():
        raise ValueError("positions of a sequence must be consecutive")
    _check_blocks(batch, limits)
    rows = batch.logit_rows
    if len(rows) and (rows[0] < 0 or rows[-1] >= count or (np.diff(rows) < 1).any()):
        raise ValueError("logit rows must rise and lie among the batch's tokens")


def _check_blocks(batch: Batch, limits: Limits) -> None:
    tables = batch.block_tables
    sequences = len(batch.starts) - 1
    used = batch.positions[batch.starts[1:] - 1] // BLOCK_SIZE + 1
    if tables.ndim != 2 or tables.shape[0] != sequences or tables.shape[1] < used.max():
        raise ValueError(
            f"block tables of shape {tables.shape} for {sequences} sequences of up to"
            f" {used.max()} blocks"
        )
    outside = (tables < 0) | (tables >= limits.blocks)
    if (outside & (np.arange(tables.shape[1]) < used[:, None])).any():
        raise ValueError(f"block id outside the cache of {limits.blocks} blocks")


def check_sampling(sampling: Sampling, rows: int, vocab_size: int) -> None:
    """Raises ValueError if the sampling parameters don't fit the step's logits rows."""
    for name in ("temperature", "top_k", "top_p", "min_p", "draw", "top_logprobs"):
        values: NDArray[np.generic] = getattr(sampling, name)
        if values.shape != (rows,):
            raise ValueError(f"{name} has shape {values.shape} for {rows} logits rows")
        if not np.isfinite(values).all():
            raise ValueError(f"{name} must be finite")
    if rows and not (sampling.draw.min() >= 0 and sampling.draw.max() < 1):
        raise ValueError("draws must lie in [0, 1)")
    if sampling.masks is not None:
        _check_masks(sampling.masks, rows, vocab_size)
    changes = sampling.adjustments
    if changes is None:
        return
    count = len(changes.row)
    if not len(changes.token) == len(changes.divide) == len(changes.add) == count:
        raise ValueError("adjustments differ in length")
    if count and (changes.row.min() < 0 or changes.row.max() >= rows):
        raise ValueError("adjustment for a row that does not exist")
    if count and (changes.token.min() < 0 or changes.token.max() >= vocab_size):
        raise ValueError("adjustment for a token outside the vocabulary")
    if not (changes.divide > 0).all() or not (changes.add < np.inf).all():
        raise ValueError("adjustments must divide by a positive number and not add infinity")


def _check_masks(masks: Masks, rows: int, vocab_size: int) -> None:
    words, (row, allowed) = (vocab_size + 31) // 32, (masks.row, masks.allowed)
    if allowed.ndim != 2 or len(allowed) != len(row):
        raise ValueError(f"masks have shape {allowed.shape} for {len(row)} rows")
    if allowed.shape[1] < words:
        raise ValueError(f"masks have {allowed.shape[1]} words, need {words}")
    if len(row) and (row.min() < 0 or row.max() >= rows):
        raise ValueError("mask for a row that does not exist")
