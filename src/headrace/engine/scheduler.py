"""What the next step computes, and for whom there is room.

Each step lets every sequence catch up with its tokens inside one token budget: first those
that want the token drawn last (decode), so that no prompt ever delays them, then prompts, in
chunks, in the order of their admission; a long one (`GenerationRequest.long`) leaves most of the
step to those behind it, so that nobody waits until it is through. How large the chunks are is
up to `engine.budget`. A prompt whose own tokens are to be scored takes a row of logits a token;
a step has max_sequences of them, which bounds its chunk.

One prompt at a time may go beside the steps: a slice of each is spent on it, until only its last
token is left for a step. It keeps its place in the order, so others join steps meanwhile only if
it is a long one. Its tokens are the same bits on either way.

Blocks. A sequence is admitted with blocks for all the tokens it has, so only generated tokens
ever ask for more. When one finds none, the sequence of the lowest class (`priority`) that has
no reservation is preempted, the youngest of them: its blocks are given up, it takes its place
in the waiting line, and it comes back only once *all* the blocks it can ever need can be had,
which it then holds reserved.

Prefixes. Full blocks are published when they are computed, generated tokens' too, and a prompt
takes over what is published instead of computing it, block by block, when it is admitted and
again before each of its chunks. A prompt whose next block is being computed in the same step by
another stands back: it finds the block published afterwards. Nothing more ties the two together,
so if the first one leaves, the second computes the block itself. Kernels give a row the same
bits however its prompt was cut, so a hit is equal to a miss.

Forced tokens (`engine.constraint`) are appended behind the prompt or one that was drawn, so who
decodes may want a few more than one: fewer than a block holds, so that one block more is enough
for them too. First each decode has its one token, then they have what is left of the step, or
half of it if there are prompts. Who doesn't get all goes on in the next step, and still
decodes.

Guesses (`engine.speculation`) come between decodes and prompts, with free blocks only. What a
guess has computed counts once the token drawn is equal to it; else it is computed over.

Bounds, which the tests hold:

1. A sequence is preempted at most once, so there is no storm. A reserved one never asks for a
   block, so whoever asks is not reserved and is itself a possible victim: a reserved one is
   never chosen. The price: one of a high class may give way to one of a low class that was
   preempted before, once.
2. The waiting line is in order of arrival, and nobody is admitted past its head, whatever the
   class: classes decide who gives way, not who enters. Whoever has run arrived before all who
   never did, so a victim's place is among the victims before them.
3. A waiting sequence and nothing running imply a non-empty plan: the whole pool can then be
   had, and what could not fit in it was refused at submission.
4. Every step gives each running decode a token at least and the first running prompt one
   (who waits for a mask has its token computed again, and one a step waits no more; a step has
   room for max_sequences at least, forced tokens and guesses leave prompts half of the rest,
   rounded up, and nobody is before the first to stand back for; beside the steps a chunk takes no
   more slices than it has tokens), so all sequences alive at some moment end within the sum of
   2 x (prompt + max_tokens) steps of each, if none arrives after: a step computes at least one
   token, and by (1) no token is computed more than twice. Waiting for masks adds at most a step
   for each mask of each other sequence.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice

from headrace.engine.blocks import BlockPool, blocks_for
from headrace.engine.budget import Load, StepBudget
from headrace.engine.guess import Guess
from headrace.engine.sequence import Sequence
from headrace.engine.speculation import Speculator
from headrace.ops.backend import BLOCK_SIZE

LONG_PART = 4
"""A long prompt takes at most one part in so many of what a step has for prompts, if there are
others; at least so much of it, if it is beside the step."""


@dataclass(frozen=True, slots=True)
class Share:
    """A sequence's part in a step: its tokens computed .. computed + count.

    samples: whether it catches up by that, so that its next token can be drawn. guesses: of
    that token and those behind it, to be computed along.
    """

    sequence: Sequence
    count: int
    samples: bool
    guesses: tuple[Guess, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Beside:
    """A prompt that is computed beside the steps, from `first` to `last`, where it decodes."""

    sequence: Sequence
    first: int

    @property
    def last(self) -> int:
        return self.sequence.wanted - 1 - self.sequence.forced


@dataclass(slots=True)
class Plan:
    """One step: whose tokens are computed, and how much that is. rows: logits wanted. beside: the
    prompt that is gone on with, for slice_seconds."""

    shares: list[Share] = field(default_factory=list)
    load: Load = field(default_factory=Load)
    rows: int = 0
    beside: Beside | None = None
    slice_seconds: float = 0.0

    def __bool__(self) -> bool:
        """Whether there is anything to compute."""
        return bool(self.shares) or self.beside is not None

    @property
    def sequences(self) -> list[Sequence]:
        """Whose keys and values it computes."""
        beside = [] if self.beside is None else [self.beside.sequence]
        return [share.sequence for share in self.shares] + beside

    def add(self, sequence: Sequence, count: int) -> None:
        samples = count == sequence.pending
        self.shares.append(Share(sequence, count, samples))
        self.load.add(count, sequence.computed)
        self.rows += len(sequence.scored_by(count)) + samples

    def guess(self, guesses: Mapping[Sequence, list[Guess]]) -> None:
        """Let these be computed along."""
        for i, share in enumerate(self.shares):
            if found := guesses.get(share.sequence):
                self.shares[i] = replace(share, guesses=tuple(found))
                self.load.add(len(found), share.sequence.wanted)
                self.rows += len(found)


class Scheduler:
    """Waiting and running sequences of one engine; the only one that moves them."""

    def __init__(
        self,
        pool: BlockPool,
        budget: StepBudget,
        *,
        max_sequences: int,
        context_length: int,
        speculator: Speculator | None = None,
    ) -> None:
        """context_length: tokens a sequence may have at most; less if the pool is smaller.
        speculator: guesses tokens, if any are to be guessed."""
        if budget.max_tokens < max_sequences:
            raise ValueError(
                f"max_step_tokens ({budget.max_tokens}) must be at least max_sequences"
                f" ({max_sequences}), so that every sequence can get its token in a step"
            )
        self.pool = pool
        self.budget = budget
        self.context_length = min(context_length, pool.total * BLOCK_SIZE)
        self.waiting: deque[Sequence] = deque()  # in order of arrival
        self.running: list[Sequence] = []  # in order of admission
        self.preemptions = 0
        self.prefilled_tokens = 0
        self.hit_tokens = 0
        self._beside: Beside | None = None
        self._arrivals = 0
        self._max_sequences = max_sequences
        self.speculator = speculator
        self._max_rows = max_rows(max_sequences, speculator.most if speculator else 0)

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
        sequence.arrival = self._arrivals
        self._arrivals += 1
        self.waiting.append(sequence)

    def retire(self, sequence: Sequence) -> None:
        """A sequence ended or was cancelled. Its blocks are free at once, or, where the step
        that runs still writes into them, when that step is over."""
        sequence.ended = True
        if sequence in self.waiting:
            self.waiting.remove(sequence)
        else:
            self._stop(sequence)
        if not sequence.in_flight:
            sequence.table.release()
        if self.speculator is not None:
            self.speculator.forget(sequence)

    def plan(self) -> Plan:
        """The next step; its sequences are in flight until `complete`. Empty if all is idle."""
        plan = Plan()
        # From the last to give way to the first: a victim never has its share already.
        decodes = sorted((s for s in self.running if s.decodes), key=_standing)
        spare = self.budget.max_tokens - len(decodes)
        if self._prompts_wait():
            spare //= 2
        for sequence in decodes:
            if not len(sequence.table):
                continue  # preempted a moment ago, for another
            if sequence.table.grow(sequence.wanted) or self._make_room(sequence):
                count = min(sequence.pending, 1 + spare)
                spare -= count - 1
                plan.add(sequence, count)
        if self.speculator is not None:
            self._speculate(plan, self.speculator)
        plan.load.decoded = plan.load.tokens
        self._add_prompts(plan)
        if self._beside is not None:
            plan.beside = self._beside
            position = self._beside.sequence.computed
            plan.slice_seconds = self.budget.grant(plan.load, position)
        for sequence in plan.sequences:
            sequence.in_flight = True
        return plan

    def _send_beside(self, plan: Plan, prompts: Iterator[Sequence]) -> Iterator[Sequence]:
        """Let the first prompt go beside the steps, if it is better there; who is left."""
        first = next(prompts, None)
        if first is None:
            return prompts
        self._adopt(first, self._hits(first))
        scored = first.unscored < first.prompt_length
        if not scored and self.budget.sooner_beside(plan.load, first.computed, first.pending):
            self._beside = Beside(first, first.computed)
            return prompts
        return chain((first,), prompts)

    def _add_prompts(self, plan: Plan) -> None:
        prompts: Iterator[Sequence] = self._prompts()
        if self._beside is None and self.budget.slices:
            prompts = self._send_beside(plan, prompts)
        claimed: set[bytes] = set()
        reserved = 0.0
        if self._beside is not None:
            sequence = self._beside.sequence
            if not sequence.request.long:
                return
            claimed.update(self._keys(sequence, 1))
            reserved = self.budget.slice_seconds(plan.load) / LONG_PART
        while plan.load.tokens < self.budget.max_tokens and plan.rows < self._max_rows:
            prompt = next(prompts, None)
            if prompt is None:
                break
            self._adopt(prompt, self._hits(prompt))
            room = self.budget.room(plan.load, prompt.computed, reserved)
            if prompt.request.long:
                room = self._long_part(plan, prompt, room)
            count = min(prompt.pending, room)
            if prompt.unscored < prompt.prompt_length:  # a token may take a row of logits
                count = min(count, self._max_rows - plan.rows)
            if not count:
                break
            keys = self._keys(prompt, count)
            if claimed.isdisjoint(keys[:1]):
                claimed.update(keys)
                plan.add(prompt, count)
                if plan.shares[-1].samples and self.budget.suffices(plan.load):
                    break

    def _long_part(self, plan: Plan, prompt: Sequence, room: int) -> int:
        """Tokens that a long prompt may take of the room; all of it where nobody else is."""
        load = replace(plan.load)
        wanted = self._wanted_by_others(plan, prompt)
        load.add(min(wanted, room), 0)
        if not load.tokens or (self.budget.targeted and not load.of_prompts):
            return room
        most = -(-room // LONG_PART) if wanted else room
        if self.budget.targeted:
            return most
        return min(most, self.budget.beside(load, prompt.computed))

    def _wanted_by_others(self, plan: Plan, prompt: Sequence) -> int:
        """Tokens of prompts that could join the step beside this one, and have not yet."""
        known = {prompt, *(share.sequence for share in plan.shares)}
        sequences = chain(self.running, islice(self.waiting, self._max_sequences))
        return sum(s.pending for s in sequences if s not in known and not s.decodes)

    def complete(
        self,
        plan: Plan,
        faulty: Collection[Sequence] = (),
        *,
        prefilled: int = 0,
        held: Collection[Sequence] = (),
    ) -> None:
        """The step is over: its tokens are computed, and who ended meanwhile lets go.

        faulty: sequences of the plan whose keys and values are not to be trusted. They stand
        where they stood, and nobody will share any block of theirs; they are to be retired.
        prefilled: by so many tokens the prompt beside the step has come on. held: sequences that
        could not draw; their last token is computed again, for its logits.
        """
        counts = [share.count for share in plan.shares]
        if plan.beside is not None:
            counts.append(prefilled)
        for sequence, count in zip(plan.sequences, counts, strict=True):
            sequence.in_flight = False
            if sequence in faulty:
                sequence.table.forget()
            else:
                self._advance(sequence, count - (sequence in held))
            if sequence.ended:
                sequence.table.release()
        if self._beside is not None and self._beside.sequence.computed == self._beside.last:
            self._beside = None

    def _advance(self, sequence: Sequence, count: int) -> None:
        prompt_left = sequence.prompt_length - sequence.computed
        self.prefilled_tokens += min(count, max(prompt_left, 0))
        first = sequence.computed // BLOCK_SIZE
        sequence.computed += count
        if self.pool.caching:
            for block in range(first, sequence.computed // BLOCK_SIZE):
                sequence.table.publish(block, sequence.chain[block])

    # Guesses.

    def accept(self, share: Share, right: int) -> None:
        """So many guesses of a share are tokens of its sequence now, and are computed. The
        others' blocks are given up."""
        sequence = share.sequence
        if self.speculator is not None:
            self.speculator.learn(sequence, share.guesses, right)
        if not sequence.ended:
            self._advance(sequence, right)
            if not sequence.reserved:
                sequence.table.shrink(sequence.computed)

    def _speculate(self, plan: Plan, speculator: Speculator) -> None:
        """Add guesses to a plan of decodes. Prompts keep half of what is left, and nobody is
        preempted for a guess."""
        tokens, rows = self.budget.max_tokens - plan.load.tokens, self._max_rows - plan.rows
        if self._prompts_wait():
            tokens, rows = tokens // 2, rows // 2
        most = min(tokens, rows)
        each = min(most, speculator.most)
        sequences = [share.sequence for share in plan.shares if share.samples]
        limits = {s: min(each, self._room_to_guess(s, each)) for s in sequences}
        proposed = speculator.propose(limits, most)
        guesses = {s: allowed for s, guess in proposed.items() if (allowed := _allowed(s, guess))}
        for sequence in sequences:
            if not sequence.reserved:
                sequence.table.shrink(sequence.wanted + len(guesses.get(sequence, ())))
        plan.guess(guesses)

    def _room_to_guess(self, sequence: Sequence, most: int) -> int:
        """Tokens behind its last that may be wanted, and whose blocks it has or gets."""
        wanted, useful = sequence.wanted, sequence.most_computed - sequence.wanted
        if sequence.table.grow(wanted + min(most, useful)):
            return useful
        return len(sequence.table) * BLOCK_SIZE - wanted

    # Blocks: who gives way, and who gets in.

    def _make_room(self, sequence: Sequence) -> bool:
        """Preempt until `sequence` has its next block; False if it had to go itself."""
        while not sequence.table.grow(sequence.wanted):
            victim = max((s for s in self.running if not s.reserved), key=_standing)
            self._preempt(victim)
            if victim is sequence:
                return False
        return True

    def _preempt(self, sequence: Sequence) -> None:
        self.preemptions += 1
        self._stop(sequence)
        sequence.table.release()
        sequence.furthest = max(sequence.furthest, sequence.computed)
        sequence.computed = 0
        sequence.reserved = True
        later = (i for i, s in enumerate(self.waiting) if s.arrival > sequence.arrival)
        self.waiting.insert(next(later, len(self.waiting)), sequence)

    def _stop(self, sequence: Sequence) -> None:
        """It runs no more."""
        self.running.remove(sequence)
        if self._beside is not None and self._beside.sequence is sequence:
            self._beside = None

    def _prompts(self) -> Iterator[Sequence]:
        """Sequences that don't decode yet and aren't beside the steps, the running ones first,
        then who gets in."""
        beside = None if self._beside is None else self._beside.sequence
        yield from [s for s in self.running if not s.decodes and s is not beside]
        while self.waiting and len(self.running) < self._max_sequences:
            sequence = self.waiting[0]
            if not self._admit(sequence):
                return
            yield sequence

    def _prompts_wait(self) -> bool:
        return bool(self.waiting) or not all(s.decodes for s in self.running)

    def _admit(self, sequence: Sequence) -> bool:
        """Let the head of the line run if its blocks can be had and, so that it isn't preempted
        at once, one more for each running sequence to grow into."""
        tokens = sequence.most_computed if sequence.reserved else sequence.wanted
        hits = self._hits(sequence)
        taken = blocks_for(tokens) - sum(not self.pool.is_cached(block) for block in hits)
        if taken + len(self.running) > self.pool.available:
            return False
        self._adopt(sequence, hits)
        sequence.table.grow(tokens)
        self.waiting.popleft()
        self.running.append(sequence)
        return True

    # Prefixes.

    def _hits(self, sequence: Sequence) -> list[int]:
        """Published blocks that hold what `sequence` would compute next."""
        hits: list[int] = []
        for index in range(sequence.computed // BLOCK_SIZE, sequence.reusable // BLOCK_SIZE):
            block = self.pool.find(sequence.chain[index]) if self.pool.caching else None
            if block is None:
                break
            hits.append(block)
        return hits

    def _adopt(self, sequence: Sequence, hits: list[int]) -> None:
        for block in hits:
            index = sequence.computed // BLOCK_SIZE
            sequence.table.share(index, block)
            end = (index + 1) * BLOCK_SIZE
            self.hit_tokens += end - sequence.computed
            sequence.cached_tokens -= sequence.prefilled
            sequence.computed = end
            sequence.cached_tokens += sequence.prefilled  # not what it had computed before

    def _keys(self, sequence: Sequence, count: int) -> list[bytes]:
        """Keys of the blocks that its next `count` tokens go into and others could reuse."""
        if not self.pool.caching:
            return []
        last = min(blocks_for(sequence.computed + count), sequence.reusable // BLOCK_SIZE)
        return [sequence.chain[i] for i in range(sequence.computed // BLOCK_SIZE, last)]


def max_rows(max_sequences: int, max_guesses: int) -> int:
    """The most rows of logits in a step."""
    return max(max_sequences, 1 + max_guesses)


def _allowed(sequence: Sequence, guesses: list[Guess]) -> list[Guess]:
    """Those before the first that its grammar forbids."""
    if sequence.constraint is None:
        return guesses
    try:
        return guesses[: sequence.constraint.allows([guess.token for guess in guesses])]
    except ValueError:
        return []  # its mask fails too, and there it can be ended for that


def _standing(sequence: Sequence) -> tuple[int, int]:
    """The greatest gives way first: the lowest class, in it the youngest."""
    return -sequence.request.priority, sequence.arrival
