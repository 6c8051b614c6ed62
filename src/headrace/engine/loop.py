"""The engine: takes requests, runs steps, gives outputs.

A step is launched, and while it runs the results of the one before become text and leave;
then it is waited for. `SynchronousEngine` does the same parts in plain order.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from headrace.engine.constraint import Constraint, Constraints
from headrace.engine.ending import Ending, ending_by
from headrace.engine.metered import Metered
from headrace.engine.output import Finish, Output, TokenLogprob
from headrace.engine.request import GenerationRequest, SamplingParams
from headrace.engine.runner import ModelRunner, Step, StepResult
from headrace.engine.scheduler import Scheduler
from headrace.engine.sequence import Sequence, TextStreams
from headrace.engine.status import EngineStatus
from headrace.ops.backend import BLOCK_SIZE, Sampled

log = structlog.get_logger(__name__)

MOST_FORCED = BLOCK_SIZE - 1
"""Forced tokens that a sequence takes at once; with the one drawn before, they ask for one more
block at most, as one token does. Longer runs go on after the next step."""


class Vocabulary(Protocol):
    """What the engine asks of a tokenizer (`text.tokenizer.Tokenizer`)."""

    @property
    def eos_ids(self) -> frozenset[int]: ...

    def piece(self, token_id: int) -> bytes: ...


@dataclass(slots=True)
class Drawn:
    """Tokens that a sequence took in the last step, before they became text; one, or more where
    some had been guessed or are forced. before: how many it had generated. forced: so many of
    the last ones were not drawn. ending: how the last one ends it."""

    sequence: Sequence
    before: int
    tokens: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    forced: int = 0
    ending: Ending | None = None


class Engine:
    """All generations of one model replica. One thread calls it; nothing here waits but `step`.

    Every submitted request is answered by Outputs from `step`, the last of which carries a
    `finish`; a request that can never run, by one with reason "refused".

    A request with a grammar stands outside the line until its constraint is made, on another
    thread. patience: seconds that a step waits for one when it has nothing else to do.
    """

    patience = 0.01

    def __init__(
        self,
        runner: ModelRunner,
        scheduler: Scheduler,
        vocabulary: Vocabulary,
        text_streams: TextStreams,
        *,
        vocab_size: int,
        constraints: Constraints | None = None,
        clock: Callable[[], float] = time.perf_counter,
        constraint_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        """vocab_size: ids from there up are refused in prompts, biases and stop ids.
        constraints: made of grammars; without, a request with one is refused. clock: in seconds;
        steps are timed by it, and what grammars cost by constraint_clock."""
        self._runner = runner
        self._scheduler = scheduler
        self._vocabulary = vocabulary
        self._text_streams = text_streams
        self._vocab_size = vocab_size
        self._constraints = constraints
        self._compiling: dict[Sequence, Future[Constraint]] = {}  # in order of arrival
        self._clock = clock
        self._constraint_clock = constraint_clock
        self._eos_ids = frozenset(token for token in vocabulary.eos_ids if token < vocab_size)
        self._live: dict[str, Sequence] = {}
        self._begun: list[Drawn] = []  # of this step, without having drawn
        self._outputs: list[Output] = []  # not yet returned by a step
        self._in_flight: Step | None = None
        self._launched = 0.0  # when, by the clock
        self._steps = 0
        self._generated = 0
        self._forced = 0

    @property
    def has_work(self) -> bool:
        """Whether `step` has anything to do."""
        return bool(self._live or self._outputs or self._in_flight)

    def submit(self, request: GenerationRequest) -> None:
        """Put a request in line. Raises ValueError if its id is alive already."""
        if request.id in self._live:
            raise ValueError(f"request {request.id!r} is alive already")
        refusal = self._refusal(request)
        if refusal is not None:
            finish = _finish(Ending("refused", error=refusal))
            self._outputs.append(Output(id=request.id, finish=finish))
            return
        text = self._text_streams(request.stopping.stop, request.thinking, request.controls)
        sequence = Sequence(request, self._scheduler.pool, text, self._eos_ids)
        sequence.replay(request.generated or ())
        if request.sampling.prompt_logprobs:
            first = request.prompt[0]
            piece = self._vocabulary.piece(first)
            sequence.prompt_logprobs.append(TokenLogprob(first, None, piece, []))
        self._live[request.id] = sequence
        if request.grammar is None:
            self._scheduler.add(sequence)
        else:
            assert self._constraints is not None
            self._compiling[sequence] = self._constraints(
                request.grammar,
                sequence.ending_ids,
                request.generated or (),
                request.namespace,
            )

    def cancel(self, request_id: str) -> None:
        """End a request as cancelled, if it is alive: its Output comes with the next step, by
        which its blocks are free."""
        if request_id in self._live:
            self._end(self._live[request_id], Ending("cancelled"))

    def step(self) -> list[Output]:
        """Wait for the step in flight, launch the next, and give the outputs of the first."""
        self._await_constraints()
        drawn = self._collect()
        self._launch()
        return self._deliver(drawn)

    def status(self) -> EngineStatus:
        scheduler, pool = self._scheduler, self._scheduler.pool
        speculator = scheduler.speculator
        return EngineStatus(
            steps=self._steps,
            running=len(scheduler.running),
            waiting=len(scheduler.waiting) + len(self._compiling),
            blocks_total=pool.total,
            blocks_free=pool.free,
            blocks_cached=pool.cached,
            preemptions=scheduler.preemptions,
            evictions=pool.evictions,
            step_budget=scheduler.budget.current,
            generated_tokens=self._generated,
            forced_tokens=self._forced,
            prefilled_tokens=scheduler.prefilled_tokens,
            hit_tokens=scheduler.hit_tokens,
            proposed_tokens=0 if speculator is None else speculator.proposed,
            accepted_tokens=0 if speculator is None else speculator.accepted,
        )

    # The parts of a step.

    def _await_constraints(self) -> None:
        """Where all that there is to do is being done elsewhere, don't come back at once."""
        scheduler = self._scheduler
        busy = self._in_flight or self._outputs or scheduler.running or scheduler.waiting
        if self._compiling and not busy:
            wait(self._compiling.values(), self.patience, FIRST_COMPLETED)

    def _enter(self) -> None:
        """Let those into the line whose constraints have been made."""
        for sequence, made in list(self._compiling.items()):
            if not made.done():
                continue
            try:
                sequence.constraint = Metered(made.result(), self._constraint_clock)
                complete = sequence.constraint.exhausted
            except Exception as error:
                self._end(sequence, ending_by(error))
                continue
            if complete:  # the grammar's only document is the empty one
                self._end(sequence, Ending("stop"))
            else:
                del self._compiling[sequence]
                self._scheduler.add(sequence)
                self._begin_as_forced(sequence)

    def _begin_as_forced(self, sequence: Sequence) -> None:
        """What every document of the grammar begins with, or goes on with, is known before the
        prompt is computed, and is computed with it."""
        if sequence.request.stopping.max_tokens == 0:
            return
        begun = Drawn(sequence, before=sequence.generated)
        self._take_forced(begun)
        self._generated += len(begun.tokens)
        if begun.tokens:
            self._begun.append(begun)

    def _launch(self) -> None:
        self._enter()
        plan = self._scheduler.plan()
        if plan:
            self._launched = self._clock()
            self._in_flight = self._runner.launch(plan)

    def _collect(self) -> list[Drawn]:
        """Wait for the step in flight; each sequence that caught up takes its token."""
        step, self._in_flight = self._in_flight, None
        if step is None:
            return []
        self._steps += 1
        try:
            result = self._runner.sample(step)
        except Exception as error:
            # Whatever a kernel raises costs the sequences of its step, not the engine. Callers are
            # told its class alone: the text may hold what another caller sent.
            log.exception("step_failed", step=self._steps)
            self._fail(step, step.plan.sequences, f"a fault in the engine ({type(error).__name__})")
            return []
        self._observe(result)
        # A row behind a guess that is broken is no fault yet: the guess may be a wrong one, and a
        # right one's row comes again in the next step.
        broken = [
            row.sequence for row in map(step.rows.__getitem__, result.broken) if not row.after
        ]
        self._fail(step, broken, "its logits are not finite", prefilled=result.slice.tokens)
        self._end_unmasked(step)
        self._outputs += _progress(step)
        return self._take_tokens(result)

    def _observe(self, result: StepResult) -> None:
        """Tell the budget what a step took that is over, and its slice."""
        budget, plan, slice = self._scheduler.budget, result.step.plan, result.slice
        budget.observe(plan.load, self._clock() - self._launched - slice.seconds)
        if plan.beside is not None and slice.tokens:
            position = plan.beside.sequence.computed
            budget.observe_chunks(position, slice.tokens, slice.chunk_seconds)

    def _fail(self, step: Step, faulty: list[Sequence], fault: str, *, prefilled: int = 0) -> None:
        """Complete a step that is over, but for those of its sequences that end by a fault."""
        self._scheduler.complete(step.plan, faulty, prefilled=prefilled, held=step.held)
        for sequence in faulty:
            if not sequence.ended:
                error = f"the model could not compute the next token: {fault}"
                self._end(sequence, Ending("error", error=error))

    def _end_unmasked(self, step: Step) -> None:
        """End those whose next token can't be drawn by their grammar. Rows behind guesses come
        again, as broken ones do."""
        for index, ending in step.unmasked.items():
            row = step.rows[index]
            if not row.after and not row.sequence.ended:
                self._end(row.sequence, ending)

    def _take_tokens(self, result: StepResult) -> list[Drawn]:
        taken: dict[Sequence, Drawn] = {}
        unfit = result.broken | result.step.unmasked.keys() | result.step.late
        held = result.step.held
        for row, wanted in enumerate(result.step.rows):
            sequence = wanted.sequence
            if sequence.ended:
                continue  # cancelled, failed, or its stop text was found while the step ran
            if wanted.scores is not None:
                sequence.prompt_logprobs.append(self._logprob(result.sampled, row))
            elif sequence.request.stopping.max_tokens == 0:
                self._end(sequence, Ending("length"))
            elif sequence in held:
                continue
            elif not wanted.after:
                taken[sequence] = Drawn(sequence, before=sequence.generated)
                self._take_drawn(taken[sequence], result.sampled, row)
            elif list(wanted.after) == taken[sequence].tokens and row not in unfit:
                self._take_drawn(taken[sequence], result.sampled, row)
        self._settle_guesses(result.step, taken)
        for drawn in taken.values():
            self._take_forced(drawn)
        self._generated += sum(len(drawn.tokens) for drawn in taken.values())
        return list(taken.values())

    def _take_drawn(self, drawn: Drawn, sampled: Sampled, row: int) -> None:
        """The token of a row becomes its sequence's next."""
        if drawn.sequence.request.sampling.logprobs is not None:
            drawn.logprobs.append(self._logprob(sampled, row))
        self._take(drawn, int(sampled.tokens[row]))

    def _take_forced(self, drawn: Drawn) -> None:
        """What the grammar leaves no choice about here follows at once."""
        sequence, constraint = drawn.sequence, drawn.sequence.constraint
        if drawn.ending is not None or constraint is None or not sequence.fast_forwards:
            return
        try:
            forced = constraint.forced()[:MOST_FORCED]
        except Exception as error:
            self._finish_by(drawn, ending_by(error))
            return
        for token in forced:
            self._take(drawn, token, forced=True)
            if drawn.ending is not None:
                break

    def _take(self, drawn: Drawn, token: int, *, forced: bool = False) -> None:
        sequence = drawn.sequence
        sequence.append(token, forced=forced)
        drawn.tokens.append(token)
        drawn.forced += forced
        self._forced += forced
        ending = _ending_by_token(sequence, token)
        if ending is not None:
            self._finish_by(drawn, ending)

    def _finish_by(self, drawn: Drawn, ending: Ending) -> None:
        drawn.ending = ending
        self._retire(drawn.sequence)

    def _settle_guesses(self, step: Step, taken: dict[Sequence, Drawn]) -> None:
        for share in step.plan.shares:
            if share.guesses and share.sequence in taken:
                self._scheduler.accept(share, len(taken[share.sequence].tokens) - 1)

    def _deliver(self, drawn: list[Drawn]) -> list[Output]:
        """Turn tokens into text, find stop texts, and hand over all outputs that are due."""
        outputs = [self._output(item) for item in (*self._begun, *drawn)] + self._outputs
        self._begun, self._outputs = [], []
        return outputs

    def _output(self, drawn: Drawn) -> Output:
        sequence, stream, ending = drawn.sequence, drawn.sequence.text, drawn.ending
        text, counted = "", 0
        for counted, token in enumerate(drawn.tokens, 1):
            last = ending if counted == len(drawn.tokens) else None
            if token not in sequence.ending_ids:  # an id that ends it has no text
                stops = drawn.before + counted > sequence.request.stopping.min_tokens
                text += stream.feed(token, stops=stops)
            if last is not None:
                text += stream.finish()
            if stream.matched is not None:
                if ending is None:
                    self._retire(sequence)
                ending = Ending("stop", matched=stream.matched)
                sequence.surplus = len(drawn.tokens) - counted
                self._generated -= sequence.surplus
                self._forced -= min(sequence.surplus, drawn.forced)
                break
        return Output(
            id=sequence.request.id,
            text=text,
            reasoning=stream.take_reasoning(),
            tokens=drawn.tokens[:counted],
            reasoning_tokens=stream.reasoning_tokens,
            prefilled=sequence.news(),
            logprobs=drawn.logprobs[:counted] if drawn.logprobs else None,
            prompt_logprobs=None if drawn.before else _prompt_logprobs(sequence),
            finish=None if ending is None else _finish_of(sequence, ending),
        )

    def _logprob(self, sampled: Sampled, row: int) -> TokenLogprob:
        piece = self._vocabulary.piece
        token = int(sampled.tokens[row])
        ids, values = sampled.top_ids[row].tolist(), sampled.top_logprobs[row].tolist()
        return TokenLogprob(
            token=token,
            logprob=float(sampled.logprobs[row]),
            piece=piece(token),
            top=[(i, value, piece(i)) for i, value in zip(ids, values, strict=True)],
        )

    # How a request leaves.

    def _retire(self, sequence: Sequence) -> None:
        del self._live[sequence.request.id]
        compiling = self._compiling.pop(sequence, None)
        if compiling is None:
            self._scheduler.retire(sequence)
        else:
            compiling.cancel()
            sequence.ended = True

    def _end(self, sequence: Sequence, ending: Ending) -> None:
        """End a sequence outside the flow of its tokens."""
        self._retire(sequence)
        finish = _finish_of(sequence, ending)
        scored = _prompt_logprobs(sequence) if ending.reason == "length" else None
        output = Output(id=sequence.request.id, prompt_logprobs=scored, finish=finish)
        self._outputs.append(output)

    def _refusal(self, request: GenerationRequest) -> str | None:
        """Why a request can never run; None if it can. The edge has asked the same before."""
        stopping, size = request.stopping, self._vocab_size
        if not request.prompt:
            return "the prompt is empty"
        if stopping.max_tokens < 0:
            return f"max_tokens is {stopping.max_tokens}, it must not be negative"
        for name, ids in (
            ("prompt", request.prompt),
            ("logit_bias", request.sampling.logit_bias),
            ("stop_token_ids", stopping.stop_token_ids),
            ("generated", request.generated or ()),
        ):
            # Not one by one: a step may wait for this, and a prompt have a million tokens.
            least, most = min(ids, default=0), max(ids, default=0)
            if least < 0 or most >= size:
                outside = least if least < 0 else most
                return f"{name} holds token id {outside}; the vocabulary has {size} tokens"
        if request.generated and len(request.generated) >= stopping.max_tokens:
            return "all its tokens have been generated"
        if request.grammar is not None and self._constraints is None:
            return "there is nothing here that follows a grammar"
        fault = _sampling_fault(request.sampling)
        if fault is not None:
            return fault
        return self._scheduler.refusal(len(request.prompt), stopping.max_tokens)


class SynchronousEngine(Engine):
    """The plain twin: a step runs, is waited for and becomes text before the next is planned.

    Gives the same outputs for every request; tests compare the two.
    """

    def step(self) -> list[Output]:
        self._await_constraints()
        self._launch()
        return self._deliver(self._collect())


def _sampling_fault(params: SamplingParams) -> str | None:
    """What in a request's numbers would fail a whole step, its batch mates' too."""
    for name in ("temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty"):
        if not math.isfinite(getattr(params, name)):
            return f"{name} must be finite"
    if not (0 < params.repetition_penalty < math.inf):
        return f"repetition_penalty is {params.repetition_penalty}, it must be positive"
    if not all(map(math.isfinite, params.logit_bias.values())):
        return "logit_bias must be finite"
    if params.prompt_logprobs and params.logprobs is None:
        return "prompt_logprobs needs logprobs"
    for name, value in (("top_k", params.top_k), ("logprobs", params.logprobs or 0)):
        if not 0 <= value < 2**31:
            return f"{name} is {value}, it must be a number from 0 to {2**31 - 1}"
    return None


def _ending_by_token(sequence: Sequence, token: int) -> Ending | None:
    """How this token, its last, ends its sequence by itself, if it does. matched is None for the
    model's own end-of-sequence id, as for vLLM's stop_reason, and where a document is complete."""
    stopping = sequence.request.stopping
    if token in sequence.ending_ids:
        return Ending("stop", matched=token if token in stopping.stop_token_ids else None)
    if sequence.constraint is not None:
        try:
            sequence.constraint.accept(token)
            if sequence.constraint.exhausted:
                return Ending("stop")
            if sequence.constraint.cut:
                return Ending("length")
        except Exception as error:
            return ending_by(error)
    if sequence.generated == stopping.max_tokens:
        return Ending("length")
    return None


def _progress(step: Step) -> Iterator[Output]:
    """Of prompts that the step brought on and that are not through."""
    for sequence in step.plan.sequences:
        through = sequence.prefilled == sequence.prompt_length
        if not (through or sequence.ended) and (prefilled := sequence.news()):
            yield Output(id=sequence.request.id, prefilled=prefilled)


def _prompt_logprobs(sequence: Sequence) -> list[TokenLogprob] | None:
    return sequence.prompt_logprobs if sequence.request.sampling.prompt_logprobs else None


def _finish_of(sequence: Sequence, ending: Ending) -> Finish:
    answered = ending.reason in ("stop", "length")
    return _finish(
        ending,
        prompt=sequence.prompt_length if answered else sequence.prefilled,
        generated=sequence.generated,
        cached=sequence.cached_tokens,
        reasoning=sequence.text.reasoning_tokens,
    )


def _finish(
    ending: Ending,
    *,
    prompt: int = 0,
    generated: int = 0,
    cached: int = 0,
    reasoning: int = 0,
) -> Finish:
    return Finish(
        reason=ending.reason,
        prompt_tokens=prompt,
        completion_tokens=generated,
        cached_tokens=cached,
        reasoning_tokens=reasoning,
        matched=ending.matched,
        error=ending.error,
    )
