from __future__ import annotations

import math

import numpy as np
import pytest

from headrace.engine.blocks import BlockPool
from headrace.engine.budget import StepBudget
from headrace.engine.draws import draws, stream_key
from headrace.engine.runner import ModelRunner, Row, sampling_of
from headrace.engine.scheduler import Scheduler
from headrace.engine.sequence import Sequence
from headrace.ops.backend import BLOCK_SIZE, Batch

from .fakes import EOS, VOCAB, FakeExecutable, FakeTextStream, request


def sequence(id: str, pool: BlockPool, prompt: list[int], **options: object) -> Sequence:
    asked = request(id, prompt, **options)
    return Sequence(asked, pool, FakeTextStream(()), frozenset({EOS}))


class Seen(FakeExecutable):
    batch: Batch

    def launch(self, batch: Batch, slice_seconds: float = 0.0) -> None:
        super().launch(batch, slice_seconds)
        assert self._batch is not None
        self.batch = self._batch


def test_a_plan_becomes_a_batch() -> None:
    pool, executable = BlockPool(16), Seen(16)
    scheduler = Scheduler(pool, StepBudget(40), max_sequences=4, context_length=500)
    runner = ModelRunner(
        executable, max_sequences=4, max_step_tokens=40, max_blocks=16, vocab_size=VOCAB
    )
    long, short = sequence("0", pool, list(range(4, 74))), sequence("1", pool, [9, 8])
    scheduler.add(long)
    first = scheduler.plan()
    result = runner.sample(runner.launch(first))
    assert len(result.sampled.tokens) == 0
    scheduler.complete(first)

    scheduler.add(short)
    second = scheduler.plan()
    step = runner.launch(second)
    batch = executable.batch
    assert batch.tokens.tolist() == [*range(44, 74), 9, 8]
    assert batch.positions.tolist() == [*range(40, 70), 0, 1]
    assert batch.starts.tolist() == [0, 30, 32]
    assert batch.logit_rows.tolist() == [29, 31]
    assert batch.block_tables[0].tolist() == long.table.blocks.tolist()
    assert batch.block_tables[1, :1].tolist() == short.table.blocks.tolist()
    assert batch.block_tables.shape == (2, -(-70 // BLOCK_SIZE))
    for array in (batch.tokens, batch.positions, batch.starts, batch.block_tables):
        assert array.dtype == np.int32
    assert step.rows == [Row(long), Row(short)]


def test_sampling_holds_each_sequences_own_numbers() -> None:
    pool = BlockPool(4)
    rows = [
        sequence("0", pool, [5, 6, 7], temperature=0.5, top_k=4, top_p=0.9, seed=3, choice=1),
        sequence("1", pool, [5], temperature=1.5, min_p=0.1, logprobs=2, seed=4),
    ]
    rows[1].append(70)
    sampling = sampling_of([Row(sequence) for sequence in rows])
    assert sampling.temperature.tolist() == [0.5, 1.5]
    assert sampling.top_k.tolist() == [4, 0]
    assert sampling.top_p.tolist() == pytest.approx([0.9, 1.0])
    assert sampling.min_p.tolist() == pytest.approx([0.0, 0.1])
    assert sampling.top_logprobs.tolist() == [-1, 2]
    assert sampling.adjustments is None
    keys = np.array([stream_key(3, 1), stream_key(4, 0)], np.uint64)
    assert sampling.draw.tolist() == draws(keys, np.array([3, 2], np.uint64)).tolist()


def test_a_draw_is_that_of_the_token_whether_it_was_prompted_or_generated() -> None:
    """What lets a generation go on elsewhere from its prompt and what it had said."""
    pool = BlockPool(4)
    going_on, resumed = sequence("0", pool, [5, 6], seed=9), sequence("1", pool, [5, 6, 7], seed=9)
    going_on.append(7)
    draw = sampling_of([Row(going_on), Row(resumed)]).draw
    assert draw[0] == draw[1]


def test_adjustments_name_the_row_they_are_for() -> None:
    pool = BlockPool(4)
    rows = [
        sequence("0", pool, [5]),
        sequence("1", pool, [5], min_tokens=1),
        sequence("2", pool, [5, 6], repetition_penalty=2.0, logit_bias={7: 1.0}),
    ]
    changes = sampling_of([Row(sequence) for sequence in rows]).adjustments
    assert changes is not None
    assert changes.row.tolist() == [1, 2, 2, 2]
    assert changes.token.tolist() == [EOS, 5, 6, 7]
    assert changes.divide.tolist() == [1, 2, 2, 1]
    assert changes.add.tolist() == [-math.inf, 0, 0, 1]
    assert (changes.row.dtype, changes.token.dtype) == (np.int32, np.int32)
    assert (changes.divide.dtype, changes.add.dtype) == (np.float32, np.float32)
