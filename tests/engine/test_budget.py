from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from headrace.engine.budget import (
    CHUNK_BESIDE,
    FIRST_CHUNK,
    LEAST_CHUNK,
    LEAST_SLICE,
    Load,
    StepBudget,
    StepTimes,
)

STREAMS = 8


class Machine:
    """Plays steps of streams that decode beside a prompt, on a machine of that cost.

    noise: standard deviation, relative. Every so often a step is interrupted.
    """

    def __init__(
        self, budget: StepBudget, cost: Callable[[Load], float], noise: float = 0.0
    ) -> None:
        self.budget = budget
        self.cost = cost
        self._noise = noise
        self._rng = np.random.default_rng(0)
        self._step = 0

    def decode(self, steps: int) -> None:
        for _ in range(steps):
            self._run(self._decodes())

    def prompt(self, tokens: int, streams: int = STREAMS) -> Iterator[tuple[int, float]]:
        """Chunk and seconds, without noise, of each step of a prompt."""
        done = 0
        while done < tokens:
            load = self._decodes(streams)
            count = min(self.budget.room(load, done), tokens - done)
            load.add(count, done)
            done += count
            self._run(load)
            yield count, self.cost(load)

    def _decodes(self, streams: int = STREAMS) -> Load:
        load = Load()
        for _ in range(streams):
            load.add(1, 300 + self._step)
        load.decoded = streams
        return load

    def _run(self, load: Load) -> None:
        self._step += 1
        seconds = self.cost(load) * float(1 + self._noise * self._rng.standard_normal() ** 2)
        if self._noise and self._step % 37 == 0:
            seconds *= 6
        self.budget.observe(load, seconds)


def linear(load: Load) -> float:
    return 0.015 + 0.0015 * load.tokens + 4e-7 * load.attended


def bent(load: Load) -> float:
    """Bound by memory while rows are few, and by arithmetic from there."""
    return max(0.025, 0.0016 * load.tokens) + 4e-7 * load.attended


def test_a_load_counts_what_its_tokens_see() -> None:
    load = Load()
    load.add(1, 9)
    load.decoded = 1
    load.add(3, 100)
    assert (load.tokens, load.of_prompts, load.attended) == (4, 3, 10 + 101 + 102 + 103)


def test_times_give_back_the_cost_they_were_made_with() -> None:
    times, rng = StepTimes(), np.random.default_rng(0)
    for _ in range(100):
        load = Load()
        load.add(8, int(rng.integers(0, 1000)))
        load.decoded = 8
        if rng.integers(2):
            load.add(int(rng.integers(1, 60)), int(rng.integers(0, 9000)))
        times.add(load, linear(load))
    assert times.cost == pytest.approx((0.015, 0.0015, 4e-7), rel=1e-6)


def test_no_coefficient_is_negative() -> None:
    times = StepTimes()
    for tokens, seconds in ((1, 0.02), (10, 0.02), (20, 0.019), (30, 0.018)):
        load = Load()
        load.add(tokens, 0)
        times.add(load, seconds)
    assert min(times.cost) == 0
    assert times.cost.of(load) == pytest.approx(0.019, rel=0.1)


def test_without_a_target_a_step_takes_all_it_has_room_for() -> None:
    budget = StepBudget(64)
    load = Load(tokens=8, decoded=8)
    assert (budget.room(load, 5000), budget.current) == (56, 64)


def test_without_a_target_a_long_prompt_makes_a_step_last_half_as_long_again() -> None:
    machine = Machine(StepBudget(512), linear)
    load = Load(tokens=8, attended=8 * 400, decoded=8)
    assert machine.budget.beside(load, 1000) == LEAST_CHUNK, "nothing was measured"
    machine.decode(20)
    list(machine.prompt(600))
    alone, chunk = linear(load), machine.budget.beside(load, 1000)
    load.add(chunk, 1000)
    assert linear(load) == pytest.approx(1.5 * alone, rel=0.05)


def test_a_long_prompt_gets_a_few_tokens_even_where_they_take_long() -> None:
    machine = Machine(StepBudget(512), linear)
    machine.decode(20)
    list(machine.prompt(600))
    assert machine.budget.beside(Load(tokens=1, attended=1, decoded=1), 100_000) == LEAST_CHUNK


def test_there_is_one_target_at_most() -> None:
    with pytest.raises(ValueError, match="not both"):
        StepBudget(64, target_itl=0.1, target_throughput=100)


@pytest.mark.parametrize("targets", [{"target_itl": 1e-6}, {"target_throughput": 1e-6}])
def test_a_prompt_alone_gets_it_all_and_beside_others_never_nothing(
    targets: dict[str, float],
) -> None:
    machine = Machine(StepBudget(512, **targets), linear)
    assert [count for count, _ in machine.prompt(1200, streams=0)] == [512, 512, 176]
    machine.decode(5)
    assert {count for count, _ in machine.prompt(80)} == {LEAST_CHUNK}
    full = Load(tokens=510, decoded=510)
    assert machine.budget.room(full, 0) == 2
    second = Load(tokens=20, decoded=8)
    assert machine.budget.room(second, 0) == 0


@pytest.mark.parametrize("cost", [linear, bent])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_target_itl_holds_from_the_first_step_on(
    cost: Callable[[Load], float], noise: float
) -> None:
    machine = Machine(StepBudget(512, target_itl=0.1), cost, noise)
    machine.decode(20)
    steps = list(machine.prompt(20_000))
    seconds = [s for _, s in steps]
    assert steps[0][0] <= FIRST_CHUNK
    assert max(seconds) < 0.14
    late = seconds[len(seconds) // 10 : -1]
    assert np.median(late) == pytest.approx(0.1 if not noise else 0.09, rel=0.1)
    assert np.quantile(late, 0.99) < 0.115


def test_it_follows_a_machine_that_becomes_slower() -> None:
    slowness = 1.0
    machine = Machine(StepBudget(512, target_itl=0.1), lambda load: slowness * linear(load))
    machine.decode(20)
    list(machine.prompt(3000))
    slowness = 1.6
    seconds = [s for _, s in machine.prompt(6000)]
    assert np.median(seconds[len(seconds) // 2 :]) == pytest.approx(0.1, rel=0.05)


def test_it_grows_by_doubling() -> None:
    machine = Machine(StepBudget(4096, target_itl=10.0), linear)
    machine.decode(20)
    counts = [count for count, _ in machine.prompt(3000)]
    assert counts[:4] == [32, 64, 128, 256]


@pytest.mark.parametrize("target", [350.0, 450.0])
def test_a_target_throughput_is_held_by_the_smallest_chunk(target: float) -> None:
    machine = Machine(StepBudget(512, target_throughput=target), linear)
    machine.decode(20)
    steps = list(machine.prompt(1200))[4:-1]
    rates = [(count + STREAMS) / seconds for count, seconds in steps]
    assert min(rates) > 0.93 * target
    assert np.median(rates) < 1.1 * target


def test_a_throughput_out_of_reach_takes_all_there_is_room_for() -> None:
    machine = Machine(StepBudget(128, target_throughput=1e6), linear)
    machine.decode(5)
    counts = [count for count, _ in machine.prompt(2000)]
    assert counts[:4] == [32, 64, 120, 120]


def decodes(count: int = STREAMS) -> Load:
    load = Load()
    for _ in range(count):
        load.add(1, 300)
    load.decoded = count
    return load


def measured(target: float, per_token: float | None) -> StepBudget:
    """One that knows steps of 20 ms and 2 ms a token, and chunks of so much a token."""
    budget = StepBudget(512, target_itl=target, slices=True)
    for tokens in (8, 16, 40, 64):
        load = decodes()
        load.add(tokens, 0)
        budget.observe(load, 0.020 + 0.002 * load.tokens)
    if per_token is not None:
        budget.observe_chunks(0, CHUNK_BESIDE, per_token * CHUNK_BESIDE)
    return budget


def test_a_slice_is_what_the_target_leaves_and_never_nothing() -> None:
    assert measured(0.1, None).slice_seconds(decodes()) == pytest.approx(0.1 - 0.036, rel=1e-3)
    assert measured(0.03, None).slice_seconds(decodes()) == pytest.approx(0.03 * LEAST_SLICE)


def test_what_a_slice_is_enough_for_is_known_by_depth() -> None:
    budget = measured(0.1, None)
    assert budget.slice_tokens(decodes(), 0) == float("inf")
    budget.observe_chunks(0, 2 * CHUNK_BESIDE, 0.001 * 2 * CHUNK_BESIDE)
    budget.observe_chunks(100, CHUNK_BESIDE // 2 - 1, 9.0)  # too short to tell
    assert budget.slice_tokens(decodes(), 0) == pytest.approx(64, rel=1e-3)
    assert budget.slice_tokens(decodes(), 20_000) == pytest.approx(64, rel=1e-3)
    budget.observe_chunks(5_000, CHUNK_BESIDE, 0.004 * CHUNK_BESIDE)
    assert budget.slice_tokens(decodes(), 4_000) == pytest.approx(64, rel=1e-3)
    assert budget.slice_tokens(decodes(), 20_000) == pytest.approx(16, rel=1e-3)


def test_a_step_that_is_nothing_but_a_slice_says_nothing_of_steps() -> None:
    budget = measured(0.1, 0.001)
    budget.observe(Load(), 0.05)
    assert budget.slice_seconds(decodes()) == pytest.approx(0.1 - 0.036, rel=1e-3)


@pytest.mark.parametrize(
    ("target", "per_token", "pending", "beside"),
    [
        (0.1, None, 1_000, True),  # who knows
        (0.1, 0.001, 1_000, True),  # 64 a slice, 32 in a step
        (0.1, 0.0021, 1_000, False),
        (0.1, 0.001, 60, False),  # two steps, or a slice and one step for the last token
        (0.1, 0.001, 32, False),  # it fits
        (0.038, 0.002, 1_000, True),  # 2.4 a slice; 8 in a step, which would last longer
        (0.038, 0.002, LEAST_CHUNK, False),
        (0.03, 0.002, 1_000, True),  # not one in a step
    ],
)
def test_a_prompt_goes_where_it_is_through_sooner(
    target: float, per_token: float | None, pending: int, beside: bool
) -> None:
    assert measured(target, per_token).sooner_beside(decodes(), 0, pending) == beside


def test_who_may_go_beside() -> None:
    assert not measured(0.1, None).sooner_beside(Load(), 0, 10_000)
    assert not StepBudget(64, target_itl=0.1).sooner_beside(decodes(), 0, 10_000)
    throughput = StepBudget(64, target_throughput=100, slices=True)
    assert not throughput.sooner_beside(decodes(), 0, 10_000)
    full = StepBudget(8, target_itl=0.1, slices=True)  # of decodes
    assert full.sooner_beside(decodes(), 0, 10_000)
