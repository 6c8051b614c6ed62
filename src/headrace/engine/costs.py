"""What a step takes by the number of its tokens."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Mapping

import numpy as np

from headrace.engine.blocks import blocks_for
from headrace.ops.backend import Batch, Executable, Limits, Sampling

MOST_TOKENS = 64
"""Steps of more are not measured: they are bound by products, and the line goes on."""

_REPEATS = 3


class StepCosts:
    """Seconds of a step by its tokens: straight lines between measured points."""

    def __init__(self, points: Mapping[int, float]) -> None:
        """points: tokens -> seconds, at least one."""
        self._tokens = sorted(points)
        # A step with more tokens does not take less; where it seems so, somebody interfered.
        seconds = 0.0
        self._seconds = [seconds := max(seconds, points[count]) for count in self._tokens]

    def __call__(self, tokens: int) -> float:
        at = self._tokens
        if len(at) == 1:
            return self._seconds[0]
        i = min(max(bisect_right(at, tokens), 1), len(at) - 1)
        slope = (self._seconds[i] - self._seconds[i - 1]) / (at[i] - at[i - 1])
        return self._seconds[i - 1] + slope * (tokens - at[i - 1])


def measure_costs(
    executable: Executable, limits: Limits, clock: Callable[[], float] = time.perf_counter
) -> StepCosts:
    """Runs steps of 1, 2, 4, … tokens, the logits of all of which are wanted, on an executable
    that nobody uses yet: with a model of a gigabyte about two seconds."""
    most = min(MOST_TOKENS, limits.tokens)
    points = {}
    for count in [1 << i for i in range(most.bit_length())]:
        if blocks_for(count) > limits.blocks:
            break
        taken = []
        for _ in range(_REPEATS):
            start = clock()
            _step(executable, count)
            taken.append(clock() - start)
        points[count] = min(taken)
    return StepCosts(points)


def _step(executable: Executable, count: int) -> None:
    places = np.arange(count, dtype=np.int32)
    zeros = np.zeros(count, np.float32)
    executable.launch(
        Batch(
            tokens=places % 97,
            positions=places,
            starts=np.array([0, count], np.int32),
            block_tables=np.arange(blocks_for(count), dtype=np.int32)[None],
            logit_rows=places,
        )
    )
    executable.sample(
        Sampling(zeros, places * 0, zeros + 1, zeros, zeros.astype(np.float64), places * 0 - 1)
    )
