"""Short spikes become a wait, long ones an early refusal, also right after a start."""

from __future__ import annotations

import pytest

from .spikes import MIXED, Outcome, capacity, one_class, spike

SEEDS = range(3, 6)
LENGTHS = [2, 5, 10, 30, 120]
cold_and_warm = pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])


def all_of(outcomes: list[Outcome]) -> Outcome:
    return Outcome([request for outcome in outcomes for request in outcome.requests])


@pytest.mark.parametrize("seconds", LENGTHS)
@cold_and_warm
@pytest.mark.parametrize("deadline", [5.0, 60.0])
def test_a_hundredth_of_those_let_in_are_late_at_most(
    deadline: float, warm: bool, seconds: float
) -> None:
    kinds = one_class(deadline)
    spikes = all_of([spike(kinds, seconds, warm=warm, seed=seed) for seed in SEEDS])
    assert spikes.late <= 0.01
    if deadline == 60 and seconds <= 10:
        assert spikes.refused <= 0.1, "a wait would have done"
    if deadline == 60 and seconds < 10:
        assert spikes.refused == 0
    if seconds >= 30:
        served = len(SEEDS) * capacity(kinds) * (seconds + deadline)
        let_in = len(spikes.requests) * (1 - spikes.refused)
        assert let_in > 0.8 * served - 64 * len(SEEDS), "the engine has to do"


@pytest.mark.parametrize("seconds", LENGTHS)
@cold_and_warm
def test_so_it_is_with_classes_side_by_side(warm: bool, seconds: float) -> None:
    spikes = all_of([spike(MIXED, seconds, warm=warm, seed=seed) for seed in SEEDS])
    assert spikes.late <= 0.01
    if seconds <= 5:
        assert spikes.of("default").refused < 0.1
