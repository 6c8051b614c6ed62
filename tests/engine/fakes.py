"""A model without a model: what other rooms' tests and ours run an engine on.

`FakeExecutable` takes the place of a loaded program, so everything above it is the real thing,
arrays and block tables included. `FakeText` takes the place of a tokenizer: token i is the
letter chr(i).
"""

from __future__ import annotations

import string
import time
import zlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from headrace.engine.blocks import BlockPool, blocks_for
from headrace.engine.budget import StepBudget
from headrace.engine.constraint import Constraint, Constraints
from headrace.engine.costs import StepCosts
from headrace.engine.draws import draws
from headrace.engine.guess import Guess, Proposer
from headrace.engine.loop import Engine, SynchronousEngine
from headrace.engine.output import Finish, Output, Prefilled
from headrace.engine.request import GenerationRequest, SamplingParams, StopConditions
from headrace.engine.runner import ModelRunner
from headrace.engine.scheduler import Scheduler
from headrace.engine.sequence import Sequence as Generation
from headrace.engine.speculation import Speculator
from headrace.grammar.grammar import Grammar
from headrace.ops.backend import (
    BLOCK_SIZE,
    Batch,
    Executable,
    Prompt,
    Sampled,
    Sampling,
    Slice,
)
from headrace.ops.sampling import sample_rows
from headrace.text.pipeline import TextPipeline
from headrace.text.reasoning import Thinking
from headrace.text.tokenizer import Tokenizer

Floats = NDArray[np.float32]
VOCAB = 128
EOS = 3

Model = Callable[[list[int]], Floats]
"""All tokens so far -> float32 [VOCAB], the logits of the next."""


def hashed(history: list[int]) -> Floats:
    """Logits that depend on every token before them, and on nothing else."""
    return _drawn_by(zlib.crc32(np.array(history, np.int32).tobytes()))


@lru_cache(1 << 15)  # engines are compared with the model alone, so mostly asked for again
def _drawn_by(seed: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(VOCAB).astype(np.float32) * 3


def saying(text: str, *, after: int, then_eos: bool = True) -> Model:
    """A model whose greedy answer to any prompt of `after` tokens is `text`."""
    script = [ord(letter) for letter in text] + [EOS] * then_eos

    def logits(history: list[int]) -> Floats:
        said = len(history) - after
        token = script[said] if said < len(script) else ord(".")
        return np.where(np.arange(VOCAB) == token, 20, 0).astype(np.float32)

    return logits


class FakeExecutable:
    """Computes nothing, but keeps which (block, offset) of the KV cache holds which token.

    A model sees the history it reads back through the block tables, so a block lost, freed too
    early or shared with another's beginning changes tokens or trips an assertion. It works in
    `sample`, as late as a real one might. `fail` raises there, once, if set.

    A prompt beside the steps goes in chunks, each of which takes one to three slices, or as many
    as it has tokens; its tokens are in the cache from the first on, and read again in the last.
    """

    def __init__(self, blocks: int, model: Model = hashed, chunk: int = 8) -> None:
        self.model = model
        self.chunk = chunk
        self.beside: Prompt | None = None
        self._prefilled = 0  # tokens of it in finished chunks
        self._slices = 0  # of the chunk under way
        self._slicing = False
        self._slice = Slice()
        self.fail: Exception | None = None
        self.batches = 0
        self._cache = np.full((blocks, BLOCK_SIZE), -1)
        self._batch: Batch | None = None

    def begin(self, prompt: Prompt) -> None:
        assert self._batch is None, "a step is running already"
        self.beside = replace(prompt, tokens=prompt.tokens.copy(), blocks=prompt.blocks.copy())
        self._prefilled = self._slices = 0

    def launch(self, batch: Batch, slice_seconds: float = 0.0) -> None:
        assert self._batch is None, "a step is running already"
        assert len(batch.tokens) or slice_seconds, "nothing to do"
        self._slicing = slice_seconds > 0
        self.batches += 1
        self._batch = Batch(
            batch.tokens.copy(),
            batch.positions.copy(),
            batch.starts.copy(),
            batch.block_tables.copy(),
            batch.logit_rows.copy(),
        )

    def sample(self, sampling: Sampling) -> Sampled:
        batch, self._batch = self._batch, None
        assert batch is not None, "no step was launched"
        if self.fail is not None:
            failure, self.fail = self.fail, None
            raise failure
        chunk = self._chunk() if self._slicing else None
        _check_that_shared_blocks_are_only_read([batch] if chunk is None else [batch, chunk])
        self._slice = Slice() if chunk is None else self._compute_slice(chunk)
        return sample_rows(self.logits_of(batch), sampling)

    def slice(self) -> Slice:
        return self._slice

    def _chunk(self) -> Batch:
        assert self.beside is not None, "nothing is beside the steps"
        chunk = self.beside.batch(self._prefilled, self._prefilled + self.chunk)
        assert len(chunk.tokens), "a slice for nothing"
        return chunk

    def _compute_slice(self, chunk: Batch) -> Slice:
        self.logits_of(chunk)
        self._slices += 1
        tokens = len(chunk.tokens)
        if self._slices < min(1 + int(chunk.positions[-1]) % 3, tokens):
            return Slice()
        self._history(chunk, 0, int(chunk.positions[-1]) + 1)
        self._prefilled, self._slices = self._prefilled + tokens, 0
        return Slice(tokens)

    def logits(self) -> Floats:
        assert self._batch is not None
        _check_that_shared_blocks_are_only_read([self._batch])
        return self.logits_of(self._batch)

    def logits_of(self, batch: Batch) -> Floats:
        rows = []
        for s in range(len(batch.starts) - 1):
            for i in range(batch.starts[s], batch.starts[s + 1]):
                block, offset = divmod(int(batch.positions[i]), BLOCK_SIZE)
                self._cache[batch.block_tables[s, block], offset] = batch.tokens[i]
                if i in batch.logit_rows:
                    rows.append(self.model(self._history(batch, s, int(batch.positions[i]) + 1)))
        return np.stack(rows) if rows else np.zeros((0, VOCAB), np.float32)

    def _history(self, batch: Batch, s: int, length: int) -> list[int]:
        blocks = batch.block_tables[s, : blocks_for(length)]
        history = self._cache[blocks].ravel()[:length]
        assert (history >= 0).all(), "a position was read before it was written"
        return history.tolist()


def _check_that_shared_blocks_are_only_read(batches: list[Batch]) -> None:
    read: Counter[int] = Counter()
    written: list[int] = []
    for batch in batches:
        for table, first, last in zip(
            batch.block_tables, batch.starts[:-1], batch.starts[1:], strict=True
        ):
            begin, end = int(batch.positions[first]), int(batch.positions[last - 1]) + 1
            used = table[: blocks_for(end)].tolist()
            read.update(used)
            written += used[begin // BLOCK_SIZE :]
            assert len(set(used)) == len(used), "a block twice in one sequence"
    assert all(read[block] == 1 for block in written), "a block is written that another holds"


class Foresight:
    """A proposer that asks the model itself, and lies at every position that `lies` names."""

    grades = 2

    def __init__(self, model: Model = hashed, lies: Callable[[int], bool] = lambda n: n % 3 == 0):
        self._model = model
        self._lies = lies
        self.seconds = 0.0

    def round_seconds(self, sequences: int) -> float:
        return self.seconds

    def prepare(self, sequences: Sequence[Generation]) -> list[Generation]:
        assert all(s.decodes for s in sequences)
        return list(sequences)

    def guess(self, wanted: Sequence[tuple[Generation, Sequence[Guess]]]) -> list[Guess]:
        return [self._next(sequence, before) for sequence, before in wanted]

    def forget(self, sequence: Generation) -> None:
        assert sequence.ended

    def _next(self, sequence: Generation, before: Sequence[Guess]) -> Guess:
        after = [guess.token for guess in before]
        tokens, params = [*sequence.tokens, *after], sequence.request.sampling
        how = Sampling(
            temperature=np.array([params.temperature], np.float32),
            top_k=np.array([params.top_k], np.int32),
            top_p=np.array([params.top_p], np.float32),
            min_p=np.array([params.min_p], np.float32),
            draw=draws(np.array([sequence.draw_key], np.uint64), np.array([len(tokens)], "u8")),
            top_logprobs=np.array([-1], np.int32),
        )
        token = int(sample_rows(self._model(tokens)[None], how).tokens[0])
        lie = self._lies(len(tokens))
        return Guess((token + 1) % VOCAB if lie else token, grade=int(not lie))


class Sliced(StepBudget):
    """Under a target that no step holds, so that prompts get eight tokens of a step, a slice is an
    eighth of nothing, and whatever else does not fit goes beside the steps."""

    def __init__(self, max_tokens: int) -> None:
        super().__init__(max_tokens, target_itl=1e-9, slices=True)

    def observe_chunks(self, position: int, tokens: int, seconds: float) -> None:
        """Stays ignorant, and therefore confident."""


def speculator(proposer: Proposer | None = None, most: int = 4) -> Speculator:
    """One that guesses as much as it may: a token more costs a step nothing."""
    return Speculator(proposer or Foresight(), StepCosts({1: 1.0}), most=most)


class FakeText:
    """Vocabulary and text streams at once: token i is the letter chr(i), EOS none."""

    eos_ids = frozenset({EOS})

    def piece(self, token_id: int) -> bytes:
        return b"" if token_id == EOS else chr(token_id).encode()

    def __call__(
        self, stop: Sequence[str], thinking: Thinking | None, controls: Mapping[int, str]
    ) -> FakeTextStream:
        assert thinking is None, "letters have no thoughts"
        assert not controls, "nor are any of them controls"
        return FakeTextStream(stop)


class FakeTextStream:
    reasoning_tokens = 0

    def __init__(self, stop: Sequence[str]) -> None:
        self.matched: str | None = None
        self._stop = stop
        self._held = ""

    def feed(self, token_id: int, *, stops: bool = True) -> str:
        letter = "" if token_id == EOS else chr(token_id)
        if not stops:
            return self.finish() + letter
        self._held += letter
        found = [(self._held.find(stop), stop) for stop in self._stop if stop in self._held]
        if found:
            at, self.matched = min(found)
            text, self._held = self._held[:at], ""
            return text
        keep = max(
            (n for stop in self._stop for n in range(len(stop)) if self._held.endswith(stop[:n])),
            default=0,
        )
        safe = self._held[: len(self._held) - keep]
        self._held = self._held[len(safe) :]
        return safe

    def finish(self) -> str:
        held, self._held = self._held, ""
        return held

    def take_reasoning(self) -> str:
        return ""


DIGITS, LOWER = frozenset(map(ord, string.digits)), frozenset(map(ord, string.ascii_lowercase))


class Form:
    """A constraint (`engine.constraint.Constraint`) that is a form to fill in: `?` is any small
    letter, `*` any number of digits, and everything else itself. Before a `*` comes no digit."""

    def __init__(self, form: str, ending_ids: Iterable[int]) -> None:
        self._form = form
        self._endings = frozenset(ending_ids)
        self._place = 0
        self.cut = False

    @property
    def exhausted(self) -> bool:
        return self._place == len(self._form)

    def accept(self, token: int) -> None:
        if token not in self._allowed(self._place):
            raise ValueError(f"{token} is not allowed")
        self._place = self._next(self._place, token)

    def forced(self) -> list[int]:
        tokens, place = [], self._place
        while len(allowed := self._allowed(place)) == 1 and not allowed & self._endings:
            tokens += allowed
            place = self._next(place, tokens[-1])
        return tokens

    def allows(self, tokens: Sequence[int]) -> int:
        return self._reach(tokens)[0]

    def _reach(self, tokens: Sequence[int]) -> tuple[int, int]:
        """How many of the tokens are allowed, and the place behind them."""
        place = self._place
        for count, token in enumerate(tokens):
            if token not in self._allowed(place) or token in self._endings:
                return count, place
            place = self._next(place, token)
        return len(tokens), place

    def mask(self, row: NDArray[np.uint32], after: Sequence[int] = ()) -> bool:
        reached, place = self._reach(after)
        row[:] = 0 if reached == len(after) else ~np.uint32(0)
        for token in self._allowed(place) or self._endings:
            row[token // 32] |= np.uint32(1 << token % 32)
        return bool(row.any())

    def _allowed(self, place: int) -> frozenset[int]:
        rest = self._form[place:]
        if not rest:
            return frozenset()
        if rest[0] == "?":
            return LOWER
        if rest[0] == "*":
            return DIGITS | (self._allowed(place + 1) if rest[1:] else self._endings)
        return frozenset({ord(rest[0])})

    def _next(self, place: int, token: int) -> int:
        if self._form[place] != "*" or token in self._endings:
            return place + 1
        return place if token in DIGITS else self._next(place + 1, token)


class Forms:
    """Makes constraints of forms, on no other thread: each is there when it has been asked for
    `polls` times. A form of `!` can't be made, and behind what it says stands why."""

    def __init__(self, polls: int = 0) -> None:
        self.polls = polls

    def __call__(
        self,
        grammar: Grammar,
        ending_ids: frozenset[int],
        taken: Sequence[int],
        owner: Hashable,
    ) -> Future[Constraint]:
        form, failed = Form(grammar.text, ending_ids), _Slow(self.polls)
        try:
            if grammar.text.startswith("!"):
                raise ValueError(grammar.text[1:])
            for token in taken:
                form.accept(token)
        except ValueError as error:
            failed.set_exception(error)
            return failed
        return made(form, self.polls)


def made(constraint: Constraint, polls: int = 0) -> Future[Constraint]:
    """A constraint that is there when it has been asked for so many times."""
    future = _Slow(polls)
    future.set_result(constraint)
    return future


class _Slow(Future[Constraint]):
    def __init__(self, polls: int) -> None:
        super().__init__()
        self._polls = polls

    def done(self) -> bool:
        self._polls -= 1
        return self._polls < 0


def make_engine(
    executable: Executable,
    *,
    blocks: int,
    context_length: int = 1024,
    max_sequences: int = 32,
    max_step_tokens: int = 64,
    vocab_size: int = VOCAB,
    synchronous: bool = False,
    caching: bool = True,
    budget: StepBudget | None = None,
    clock: Callable[[], float] = time.perf_counter,
    constraint_clock: Callable[[], float] = time.thread_time,
    scheduler: type[Scheduler] = Scheduler,
    speculator: Speculator | None = None,
    tokenizer: Tokenizer | None = None,
    constraints: Constraints | None = None,
) -> Engine:
    """tokenizer: a real one, for a real model; else tokens are letters."""
    kind = SynchronousEngine if synchronous else Engine
    text = FakeText()
    return kind(
        ModelRunner(
            executable,
            max_sequences=max_sequences,
            max_step_tokens=max_step_tokens,
            max_blocks=blocks,
            vocab_size=vocab_size,
        ),
        scheduler(
            BlockPool(blocks, caching=caching),
            budget or StepBudget(max_step_tokens),
            max_sequences=max_sequences,
            context_length=context_length,
            speculator=speculator,
        ),
        tokenizer or text,
        partial(TextPipeline, tokenizer) if tokenizer else text,
        vocab_size=vocab_size,
        constraints=constraints,
        clock=clock,
        constraint_clock=constraint_clock,
    )


def fake_engine(model: Model = hashed, *, blocks: int = 64, **options: object) -> Engine:
    """An engine on a FakeExecutable; the options are make_engine's. Grammars are forms."""
    executable = FakeExecutable(blocks, model)
    return make_engine(executable, blocks=blocks, **{"constraints": Forms(), **options})


def request(
    id: str = "r", prompt: Sequence[int] = (65, 66, 67), **options: object
) -> GenerationRequest:
    """A greedy request of 8 tokens; options go where they belong by their names. grammar may be
    the text of one."""
    if isinstance(grammar := options.get("grammar"), str):
        options["grammar"] = Grammar(grammar)
    stopping = {k: v for k, v in options.items() if k in StopConditions.__struct_fields__}
    own = {k: v for k, v in options.items() if k in GenerationRequest.__struct_fields__}
    sampling = {k: v for k, v in options.items() if k not in stopping and k not in own}
    return GenerationRequest(
        id=id,
        prompt=list(prompt),
        sampling=SamplingParams(**{"temperature": 0.0, **sampling}),
        stopping=StopConditions(**{"max_tokens": 8, **stopping}),
        **own,
    )


class Answers:
    """Outputs as their callers see them, put together by request."""

    def __init__(self) -> None:
        self.outputs: dict[str, list[Output]] = {}
        self.prefilled: dict[str, Prefilled] = {}

    def take(self, outputs: list[Output]) -> None:
        for output in outputs:
            if output.prefilled is not None:
                self.prefilled[output.id] = output.prefilled
                if output == Output(id=output.id, prefilled=output.prefilled):
                    continue  # callers see nothing of it
            seen = self.outputs.setdefault(output.id, [])
            assert not seen or seen[-1].finish is None, "an output after the last"
            seen.append(output)

    def drain(self, engine: Engine, most_steps: int = 10_000) -> Answers:
        """Step until the engine is idle."""
        steps = 0
        while engine.has_work:
            steps += 1
            assert steps <= most_steps, "the engine does not come to an end"
            self.take(engine.step())
        return self

    def text(self, id: str) -> str:
        return "".join(output.text for output in self.outputs[id])

    def tokens(self, id: str) -> list[int]:
        return [token for output in self.outputs[id] for token in output.tokens]

    def logprobs(self, id: str) -> list[object]:
        return [entry for output in self.outputs[id] for entry in output.logprobs or []]

    def finish(self, id: str) -> Finish:
        finish = self.outputs[id][-1].finish
        assert finish is not None, f"{id} did not finish"
        return finish


def answer(engine: Engine, *requests: GenerationRequest) -> Answers:
    """Submit all and run until the engine is idle."""
    for each in requests:
        engine.submit(each)
    return Answers().drain(engine)
