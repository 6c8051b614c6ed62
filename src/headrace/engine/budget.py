"""How much of a step prompts may take beside those that decode.

The more of it, the less it costs to compute each token, and the longer everybody who decodes waits
for the next one. Without a target a step takes all it has room for, but a long prompt makes it
last half as long again at most. With one, the chunk is chosen anew for each step, from what the
last steps took.

The controller is a model and a formula. A step is taken to last

    base + per_token x tokens + per_position x positions its tokens attend to,

with coefficients fit by least squares of relative errors, none negative, to the latest 64 steps
with prompts and the latest 64 without: two kinds, so that a long stretch of one does not make
the other forgotten, and relative, so that a slow step weighs little. Steps that took three times
as long as the fit says were interrupted, and it is made again without them. A target
inter-token latency (ITL) takes the largest chunk whose step lasts no longer; a target
throughput the smallest whose step computes that many tokens a second, prompts and answers
together. It cannot oscillate by itself, as a loop that nudges a budget can: there is no state
but the measurements. It never asks for more than twice the largest chunk measured, so it grows
by doubling from a small one instead of trusting an extrapolation.

Under a target ITL a prompt has a second way: not in steps but beside them (`Executable.begin`), in
chunks as large as is efficient, whose way through the layers takes as many steps as it must. Each
step then spares it what the target leaves, as time and not as tokens: a slice. A prompt takes the
way on which it is through sooner, as far as is known: what chunks beside the steps take is
remembered by how deep in a prompt they were, and deeper they are taken to cost no more until one
has shown it. Who hopes too much measures; who fears what a fit says of depths it never saw would
never find out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FIRST_CHUNK = 32
"""Tokens of prompts in a step before any such step was measured."""

LEAST_CHUNK = 8
"""Tokens that a prompt gets even where the target leaves no room."""

LONG_SHARE = 1 / 2
"""Without a target: time that a long prompt may take of a step, by the time of all others in it."""

LEAST_SLICE = 1 / 8
"""Of the target ITL, what a prompt beside the steps gets in any case."""

CHUNK_BESIDE = 192
"""Tokens of a prompt beside the steps that go through the layers together: whole tiles of rows.
With 96 to 384 a token costs the same within a tenth, and wide models like few, narrow ones many."""

_REMEMBERED = 64
_RENEWED = 16  # the fit is made again when a sixteenth of what it knows is new
_INTERRUPTED = 3.0
_RIDGE = 1e-12  # where features go together, any split of their cost will do


@dataclass(slots=True)
class Load:
    """What a step computes. attended: positions that its tokens attend to, themselves included,
    in all. decoded: those of its tokens that are not of prompts: the last ones of sequences, and
    what was guessed or forced behind them."""

    tokens: int = 0
    attended: int = 0
    decoded: int = 0

    @property
    def of_prompts(self) -> int:
        return self.tokens - self.decoded

    def add(self, count: int, position: int) -> None:
        """`count` tokens of a sequence, from that position on."""
        self.tokens += count
        self.attended += count * position + count * (count + 1) // 2


class Cost(NamedTuple):
    """Seconds of a step, of a token in it, of a position that a token attends to."""

    base: float
    per_token: float
    per_position: float

    def of(self, load: Load) -> float:
        return self.base + self.per_token * load.tokens + self.per_position * load.attended


class StepTimes:
    """The latest steps, and what they say about the next."""

    def __init__(self) -> None:
        # Of each kind of step, with prompts and without: what it computed by the second, float64
        # [2, remembered, 3], zeros where there was none yet, tokens of prompts, and how many came.
        self._features = np.zeros((2, _REMEMBERED, 3))
        self._chunks = np.zeros(_REMEMBERED, np.int64)
        self._came = [0, 0]
        self._news = 0  # steps that the fit doesn't know
        self._cost: Cost | None = None

    def add(self, load: Load, seconds: float) -> None:
        kind = 0 if load.of_prompts else 1
        at = self._came[kind] % _REMEMBERED
        self._came[kind] += 1
        self._features[kind, at] = (1 / seconds, load.tokens / seconds, load.attended / seconds)
        if load.of_prompts:
            self._chunks[at] = load.of_prompts
        self._news += 1

    @property
    def largest_chunk(self) -> int:
        """Most tokens of prompts in a step that is remembered."""
        return int(self._chunks.max())

    @property
    def cost(self) -> Cost:
        known = sum(min(came, _REMEMBERED) for came in self._came)
        if self._cost is None or self._news * _RENEWED >= known:
            self._cost, self._news = self._fit(known), 0
        return self._cost

    def _fit(self, known: int) -> Cost:
        steps = self._features.reshape(-1, 3)
        coefficients = _non_negative_fit(steps)
        usual = steps @ coefficients > 1 / _INTERRUPTED
        if usual.sum() < known:
            coefficients = _non_negative_fit(steps[usual])
        return Cost(*coefficients.tolist())


def _non_negative_fit(features: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64 [F]: what makes the rows of features, [N, F], sum to nearly 1: the least squares
    of all coefficients that are not negative; zeros where nothing fits, as for no rows. Rows of
    zeros say nothing.

    There are few features, so all sets that may be the ones above zero are tried, largest first.
    By the normal equations, since every step waits for this.
    """
    products, sums = features.T @ features, features.sum(axis=0)
    scale = np.sqrt(products.diagonal())
    scale[scale == 0] = 1.0
    products, sums = products / np.outer(scale, scale), sums / scale
    count = len(sums)
    best, least = np.zeros(count), math.inf
    for size in range(count, 0, -1):
        for kept in map(list, combinations(range(count), size)):
            among = products[np.ix_(kept, kept)]
            fit = np.linalg.solve(among + _RIDGE * np.eye(size), sums[kept])
            error = float(fit @ among @ fit - 2 * fit @ sums[kept])  # and the number of rows
            if error < least and (fit >= 0).all():
                best, least = np.zeros(count), error
                best[kept] = fit
        if size == count and least < math.inf:
            break  # nothing is better than the fit of all
    return best / scale


class StepBudget:
    """Chunks for one engine. At most one target; none means all there is room for."""

    def __init__(
        self,
        max_tokens: int,
        *,
        target_itl: float | None = None,
        target_throughput: float | None = None,
        slices: bool = False,
    ) -> None:
        """max_tokens: of a step. target_itl in seconds, target_throughput in tokens a second.
        slices: whether a prompt may be computed beside the steps, to hold a target ITL.

        The attribute `targeted` tells whether there is a target."""
        if target_itl is not None and target_throughput is not None:
            raise ValueError("there can be a target ITL or a target throughput, not both")
        self.max_tokens = max_tokens
        self.current = max_tokens
        self._target_itl = target_itl
        self._target_throughput = target_throughput
        self.targeted = target_itl is not None or target_throughput is not None
        self.slices = slices and target_itl is not None
        self._times = StepTimes()
        self._chunk_seconds: dict[int, float] = {}  # a token, by bits of a position

    def observe(self, load: Load, seconds: float) -> None:
        """A step took so long, without its slice."""
        if load.tokens and seconds > 0:
            self._times.add(load, seconds)

    def observe_chunks(self, position: int, tokens: int, seconds: float) -> None:
        """Chunks beside the steps, of so many tokens from there on, took so long in all."""
        if tokens >= CHUNK_BESIDE // 2:  # a short one tells nothing of others
            self._chunk_seconds[position.bit_length()] = seconds / tokens

    def slice_seconds(self, load: Load) -> float:
        """What of a step of this load is for the prompt beside it."""
        assert self._target_itl is not None
        spare = self._target_itl - self._times.cost.of(load)
        return max(spare, LEAST_SLICE * self._target_itl)

    def grant(self, load: Load, position: int) -> float:
        """The same, for a prompt at that position; as `room` is for prompts in steps."""
        tokens = self.slice_tokens(load, position)
        self.current = load.tokens + (round(tokens) if math.isfinite(tokens) else CHUNK_BESIDE)
        return self.slice_seconds(load)

    def slice_tokens(self, load: Load, position: int) -> float:
        """How many tokens of a prompt at that position a slice is enough for; infinitely many
        before any was measured."""
        known = [bits for bits in self._chunk_seconds if bits <= position.bit_length()]
        if not known:
            return math.inf
        return self.slice_seconds(load) / self._chunk_seconds[max(known)]

    def sooner_beside(self, load: Load, position: int, pending: int) -> bool:
        """Whether a prompt that lacks so many tokens from there on is through in fewer steps of
        this load beside them than in them. Its last token is computed in one in any case."""
        if not self.slices or self._target_itl is None or not load.decoded:
            return False
        middle = position + pending // 2
        most = min(self.max_tokens - load.tokens, self._most_tried)
        within = min(most, self._for_itl(load, middle, self._target_itl))
        if pending <= max(within, LEAST_CHUNK):
            return False
        beside = self.slice_tokens(load, middle)
        return within < 1 or pending / beside + 1 < pending / within

    @property
    def _most_tried(self) -> int:
        """The largest chunk that is asked for, by those that were measured."""
        return max(2 * self._times.largest_chunk, FIRST_CHUNK)

    def room(self, load: Load, position: int, reserved: float = 0.0) -> int:
        """How many tokens, from that position of a prompt on, may join a step of this load.
        reserved: seconds of a target ITL that are not for them, but for a slice.

        Whatever the target: at least LEAST_CHUNK for its first prompt, if they fit the step. All
        that fit if nobody decodes.
        """
        room = self.max_tokens - load.tokens
        if self.targeted and load.decoded:
            most = self._most_tried - load.of_prompts
            least = 0 if load.of_prompts else LEAST_CHUNK
            if self._target_itl is not None:
                chunk = self._for_itl(load, position, self._target_itl - reserved)
                room = min(room, max(least, int(min(chunk, most))))
            elif self._target_throughput is not None:
                chunk = self._for_throughput(load, position, self._target_throughput)
                room = min(room, max(least, math.ceil(min(chunk, most))))
        self.current = load.tokens + room
        return room

    def beside(self, load: Load, position: int) -> int:
        """How many tokens of a long prompt, from that position on, may join a step of this load
        without a target, so that the others in it hardly wait: what takes LONG_SHARE of their
        time; LEAST_CHUNK at least, since fewer rows cost nearly as much attention."""
        target = (1 + LONG_SHARE) * self._times.cost.of(load)
        chunk = self._for_itl(load, position, target)
        return max(LEAST_CHUNK, int(min(chunk, self._most_tried)))

    def suffices(self, load: Load) -> bool:
        """Whether a prompt that ends in this step had better not wait for further ones in it.

        They would delay its first token, and everybody's next, for little: rows beyond
        FIRST_CHUNK hardly get cheaper. It also keeps apart those who came together, so that
        they don't come together again. Where nobody decodes, or throughput is the target, steps
        are filled.
        """
        if self._target_throughput is not None or not load.decoded:
            return False
        return load.of_prompts >= FIRST_CHUNK

    def _for_itl(self, load: Load, position: int, target: float) -> float:
        """The largest n with cost(load) + slope n + per_position n^2 / 2 <= target."""
        cost = self._times.cost
        spare = target - cost.of(load)
        if spare <= 0:
            return 0.0
        slope = cost.per_token + cost.per_position * position
        root = math.sqrt(slope**2 + 2 * cost.per_position * spare)
        return 2 * spare / (slope + root) if root else math.inf

    def _for_throughput(self, load: Load, position: int, target: float) -> float:
        """The smallest n with (tokens + n) / (cost(load) + slope n) >= target."""
        cost = self._times.cost
        slope = cost.per_token + cost.per_position * position
        gain = 1 - target * slope
        lack = target * cost.of(load) - load.tokens
        if lack <= 0:
            return 0.0
        return lack / gain if gain > 0 else math.inf
