"""Masks have a budget together, and what is late changes no token."""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from headrace.engine import masks
from headrace.engine.masks import CHEAP_SECONDS, STEP_SECONDS, MaskTable
from headrace.engine.row import Row
from headrace.engine.sequence import Sequence
from headrace.ops.backend import BLOCK_SIZE

from .fakes import VOCAB, Form, answer, fake_engine, request, speculator

COSTLY = STEP_SECONDS / 2.5


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


class Costs(Form):
    """Each of its masks takes so many seconds."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        super().__init__("???", {3})
        self._clock, self._seconds = clock, seconds

    def mask(self, row: NDArray[np.uint32], after: Items[int] = ()) -> bool:
        self._clock.now += self._seconds
        return super().mask(row, after)


def sequences(clock: Clock, seconds: Items[float]) -> list[Sequence]:
    engine = fake_engine()
    made = []
    for n, each in enumerate(seconds):
        engine.submit(request(str(n)))
        sequence = engine._live[str(n)]
        sequence.constraint = Costs(clock, each)
        made.append(sequence)
    return made


def late(table: MaskTable, ruled: list[Sequence]) -> set[int]:
    return set(table.fill([Row(sequence) for sequence in ruled]).late)


def test_cheap_masks_are_made_however_many_costly_ones_there_are() -> None:
    clock = Clock()
    table = MaskTable(VOCAB, clock=clock)
    ruled = sequences(clock, [COSTLY] * 12 + [CHEAP_SECONDS / 2])
    while ruled[-1].mask_seconds is None:
        late(table, ruled)
    for _ in range(8):
        began = clock.now
        assert 12 not in late(table, ruled)
        assert clock.now - began <= STEP_SECONDS + COSTLY + CHEAP_SECONDS


def test_costly_masks_are_made_in_turn() -> None:
    clock = Clock()
    table = MaskTable(VOCAB, clock=clock)
    ruled = sequences(clock, [COSTLY] * 6)
    made = [6 - len(late(table, ruled)) for _ in range(4)]
    assert made == [3] * 4
    assert {sequence.masks_waited for sequence in ruled} == {0, 1}


def test_one_mask_is_made_in_any_step_however_costly() -> None:
    clock = Clock()
    table = MaskTable(VOCAB, clock=clock)
    ruled = sequences(clock, [10 * STEP_SECONDS] * 3)
    seen = [late(table, ruled) for _ in range(3)]
    assert [len(each) for each in seen] == [2, 2, 2]
    assert set.intersection(*seen) == set()


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.sampled_from(["{name:??,age:*,sign:?}", "??*", "?" + "x" * 40 + "?"]), max_size=5),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 1]),
    st.integers(1, 2 * BLOCK_SIZE),
)
def test_late_masks_change_no_token(
    forms: list[str], synchronous: bool, speculates: bool, logprobs: int | None, length: int
) -> None:
    asked = [
        request(f"r{n}", [5] * length, max_tokens=70, seed=n, grammar=form, logprobs=logprobs)
        for n, form in enumerate(forms)
    ]
    asked.append(request("free", [5] * length, max_tokens=40, ignore_eos=True))
    options = {"speculator": speculator()} if speculates else {}
    usual = answer(fake_engine(synchronous=synchronous), *asked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(masks, "STEP_SECONDS", -1.0)
        patch.setattr(masks, "CHEAP_SECONDS", -1.0)
        engine = fake_engine(synchronous=synchronous, **options)
        late = answer(engine, *asked)
    for one in asked:
        assert late.tokens(one.id) == usual.tokens(one.id)
        assert late.text(one.id) == usual.text(one.id)
        assert late.finish(one.id).reason == usual.finish(one.id).reason
        assert len(late.logprobs(one.id)) == len(usual.logprobs(one.id))
    status = engine.status()
    assert status.blocks_free + status.blocks_cached == status.blocks_total
