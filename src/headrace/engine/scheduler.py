"""What the next step computes, and for whom there is room.

Each step lets every sequence catch up with its tokens inside one token budget: first those
that want one token (decode), so that no prompt ever delays them, then prompts, in chunks, in
the order of their admission.

Blocks. A sequence is admitted with blocks for all the tokens it has, so only generated tokens
ever ask for more. When one finds none free, the youngest sequence without a reservation is
preempted: its blocks are freed, it goes to the front of the waiting line, and it comes back
only once *all* the blocks it can ever need are free, which it then holds reserved.

Bounds, which the tests hold:

1. A sequence is preempted at most once. A reserved one never asks for a block, so whoever
   asks is not reserved and is itself a possible victim: a reserved one is never chosen.
2. The waiting line is in order of arrival, and nobody is admitted past its head. A victim is
   the youngest of those not reserved, and nobody was admitted while an earlier victim waits,
   so it arrived before every earlier victim that still waits: the front is its place.
3. A waiting sequence and nothing running imply a non-empty plan: the whole pool is then free,
   and what could not fit in it was refused at submission.
4. Every step gives each running decode its token and the first running prompt at least one
   (the budget is at least max_sequences), so all sequences alive at some moment end within
   the sum of 2 x (prompt + max_tokens) steps of each, if none arrives after: a step computes
   at least one token, and by (1) no token is computed more than twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.engine.blocks import BlockPool
from headrace.engine.sequence import Sequence
from headrace.ops.backend import BLOCK_SIZE


@dataclass(frozen=True, slots=True)
class Share:
    """A sequence's part in a step: its tokens computed .. computed + count.

    samples: whether it catches up by that, so that its next token can be drawn.
    """

    sequence: Sequence
    count: int
    samples: bool


@dataclass(slots=True)
class Plan:
    """One step: whose tokens are computed. `tokens` is their number."""

    shares: list[Share] = field(default_factory=list)
    tokens: int = 0

    def add(self, sequence: Sequence, count: int) -> None:
        self.shares.append(Share(sequence, count, samples=count == sequence.pending))
        self.tokens += count


class Scheduler:
    """Waiting and running sequences of one engine; the only one that moves them."""

    def __init__(
        self, pool: BlockPool, *, max_sequences: int, max_step_tokens: int, context_length: int
    ) -> None:
        """context_length: tokens a sequence may have at most; less if the pool is smaller."""
        if max_step_tokens < max_sequences:
            raise ValueError(
                f"max_step_tokens ({max_step_tokens}) must be at least max_sequences"
                f" ({max_sequences}), so that every sequence can get its token in a step"
            )
        self.pool = pool
        self.context_length = min(context_length, pool.total * BLOCK_SIZE)
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []  # in order of admission
        self.preemptions = 0
        self.prefilled_tokens = 0
        self._max_sequences = max_sequences
        self._max_step_tokens = max_step_tokens

    def refusal(self, prompt_tokens: int, max_tokens: int) -> str | None:
        """Why a request of this size can never run; None if it can."""
        if prompt_tokens >= self.context_length:
            return (
                f"the prompt has {prompt_tokens} tokens, which leaves no room for an answer"
                f" in the context of {self.context_length}"
            )
        if prompt_tokens + max_tokens > self.context_length:
            return (
                f"the prompt has {prompt_tokens} tokens and max_tokens is {max_tokens}, together"
                f" more than the context of {self.context_length}"
            )
        return None

    def add(self, sequence: Sequence) -> None:
        """Put a sequence at the end of the waiting line. `refusal` had nothing against it."""
        self.waiting.append(sequence)

    def retire(self, sequence: Sequence) -> None:
        """A sequence ended or was cancelled. Its blocks are free at once, or, where the step
        that runs still writes into them, when that step is over."""
        sequence.ended = True
        if sequence in self.waiting:
            self.waiting.remove(sequence)
        else:
            self.running.remove(sequence)
        if not sequence.in_flight:
            sequence.table.release()

    def plan(self) -> Plan:
        """The next step; its sequences are in flight until `complete`. Empty if all is idle."""
        plan = Plan()
        for sequence in [s for s in self.running if s.pending == 1]:
            if not len(sequence.table):
                continue  # preempted a moment ago, for an older one
            if sequence.table.grow(sequence.wanted) or self._make_room(sequence):
                plan.add(sequence, 1)
        prompts = self._prompts()
        while room := self._max_step_tokens - plan.tokens:
            prompt = next(prompts, None)
            if prompt is None:
                break
            plan.add(prompt, min(prompt.pending, room))
        for share in plan.shares:
            share.sequence.in_flight = True
        return plan

    def complete(self, plan: Plan) -> None:
        """The step is over: its tokens are computed, and who ended meanwhile lets go."""
        for share in plan.shares:
            sequence = share.sequence
            sequence.in_flight = False
            prompt_left = sequence.prompt_length - sequence.computed
            self.prefilled_tokens += min(share.count, max(prompt_left, 0))
            sequence.computed += share.count
            if sequence.ended:
                sequence.table.release()

    def _make_room(self, sequence: Sequence) -> bool:
        """Preempt until `sequence` has its next block; False if it had to go itself."""
        while not sequence.table.grow(sequence.wanted):
            victim = next(s for s in reversed(self.running) if not s.reserved)
            self._preempt(victim)
            if victim is sequence:
                return False
        return True

    def _preempt(self, sequence: Sequence) -> None:
        self.preemptions += 1
        self.running.remove(sequence)
        sequence.table.release()
        sequence.computed = 0
        sequence.reserved = True
        self.waiting.appendleft(sequence)

    def _prompts(self) -> Iterator[Sequence]:
        """Sequences that want several tokens, the running ones first, then who gets in."""
        yield from [s for s in self.running if s.pending > 1]
        while self.waiting and len(self.running) < self._max_sequences:
            sequence = self.waiting[0]
            if not self._admit(sequence):
                return
            yield sequence

    def _admit(self, sequence: Sequence) -> bool:
        """Let the head of the line run if its blocks are free and, so that it isn't preempted
        at once, one more for each running sequence to grow into."""
        tokens = sequence.most_computed if sequence.reserved else sequence.wanted
        if sequence.table.missing(tokens) + len(self.running) > self.pool.free:
            return False
        sequence.table.grow(tokens)
        self.waiting.popleft()
        self.running.append(sequence)
        return True
