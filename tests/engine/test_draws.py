from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from headrace.engine.draws import draws, stream_key

seeds = st.integers(-(2**70), 2**70)


def stream(seed: int, choice: int, positions: NDArray[np.uint64]) -> NDArray[np.float64]:
    return draws(np.full(len(positions), stream_key(seed, choice), np.uint64), positions)


def one(seed: int, choice: int, position: int) -> float:
    return float(stream(seed, choice, np.array([position], np.uint64))[0])


@given(seeds, st.integers(0, 127), st.lists(st.integers(0, 2**31), min_size=1, max_size=40))
def test_a_draw_depends_on_its_key_alone_not_on_who_is_drawn_with_it(
    seed: int, choice: int, positions: list[int]
) -> None:
    together = stream(seed, choice, np.array(positions, np.uint64))
    assert together.tolist() == [one(seed, choice, position) for position in positions]
    assert (together >= 0).all()
    assert (together < 1).all()


def test_fixed_values_so_that_a_release_cannot_change_answers() -> None:
    values = [round(one(seed, 0, 7), 6) for seed in (0, 1, -1, 2**64 + 1)]
    assert values == [0.258407, 0.808959, 0.67345, 0.808959]


def uniformity(values: NDArray[np.float64]) -> float:
    """Kolmogorov-Smirnov distance from uniform, times the root of the count: 1.95 is passed
    once in a thousand by chance."""
    ordered, n = np.sort(values), len(values)
    above = np.arange(1, n + 1) / n - ordered
    below = ordered - np.arange(n) / n
    return float(max(above.max(), below.max()) * np.sqrt(n))


def test_draws_are_uniform_along_every_part_of_the_key() -> None:
    n = 20_000
    assert uniformity(stream(1, 0, np.arange(n, dtype=np.uint64))) < 1.95
    start = np.zeros(n, np.uint64)
    by_seed = np.array([stream_key(seed, 0) for seed in range(n)], np.uint64)
    by_choice = np.array([stream_key(0, choice) for choice in range(n)], np.uint64)
    assert uniformity(draws(by_seed, start)) < 1.95
    assert uniformity(draws(by_choice, start)) < 1.95


def test_neighbours_are_not_correlated() -> None:
    n = 20_000
    positions = np.arange(n, dtype=np.uint64)
    base = stream(5, 0, positions)
    for other in (
        stream(5, 0, positions + np.uint64(1)),
        stream(6, 0, positions),
        stream(5, 1, positions),
    ):
        assert abs(np.corrcoef(base, other)[0, 1]) < 4 / np.sqrt(n)


def test_seed_and_choice_are_not_interchangeable() -> None:
    assert one(1, 2, 0) != one(2, 1, 0)
    assert one(1, 0, 1) != one(0, 1, 0)


def test_one_changed_bit_of_the_seed_changes_half_the_bits_of_the_key() -> None:
    flips = [
        (stream_key(seed, 3) ^ stream_key(seed ^ (1 << bit), 3)).bit_count()
        for seed in range(50)
        for bit in range(64)
    ]
    assert 31.5 < np.mean(flips) < 32.5
    assert min(flips) > 8
