"""All generations of one HTTP request: placed, read and ended together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from headrace.dispatch.siblings import Siblings
from headrace.dispatch.terms import Terms
from headrace.edge.services import Places, Running
from headrace.engine.output import Finish, Output, Prefilled
from headrace.engine.request import GenerationRequest


class EngineFault(Exception):
    """The engine ended a generation with an error; the message is its sentence."""


class EngineRefusal(Exception):
    """The engine ended a generation because of what was asked; the message is its sentence."""


class ServiceEnds(Exception):
    """The service ends before the generation has."""


class Sink(Protocol):
    """Where a job's outputs go."""

    async def placed(self) -> None:
        """A generation has its place; called once for each."""
        ...

    async def deliver(self, index: int, output: Output, *, more: bool) -> None:
        """More of choice `index`; the last one of a choice carries its `finish`. more: the next
        one is there already, so this one may wait for it."""
        ...


@dataclass(slots=True)
class Choice:
    """One generation and what is known of it so far. completion_tokens: seen so far, and
    exact once `finish` is there; reasoning_tokens: only then. first_token, ended: when the first
    token and the finish were seen, by `time.perf_counter`. waiting: who waits for its place."""

    request: GenerationRequest
    waiting: asyncio.Task[object] | None = None
    running: Running | None = None
    finish: Finish | None = None
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    first_token: float | None = None
    ended: float | None = None

    @property
    def prefilled(self) -> Prefilled:
        """How much of its prompt was computed or found in the cache."""
        if self.finish is not None:
            return Prefilled(self.finish.prompt_tokens, self.finish.cached_tokens)
        return Prefilled(len(self.request.prompt) if self.completion_tokens else 0, 0)

    @property
    def decoding(self) -> float:
        """Seconds from its first token to its end, as far as both were seen."""
        if self.first_token is None or self.ended is None:
            return 0.0
        return self.ended - self.first_token

    def note(self, output: Output) -> None:
        self.completion_tokens += len(output.tokens)
        if self.first_token is None and output.tokens:
            self.first_token = time.perf_counter()
        if output.finish is not None:
            self.finish = output.finish
            self.ended = time.perf_counter()
            self.completion_tokens = output.finish.completion_tokens
            self.reasoning_tokens = output.finish.reasoning_tokens


class Job:
    """Runs the generations of a request side by side.

    Once one of them has its place, the others get theirs, too, however long that takes. The first
    fault ends all of them. `cancel` stops the work, wherever it is, and lets `run`
    return with the counts of what was generated until then.
    """

    def __init__(self, places: Places, requests: Sequence[GenerationRequest], terms: Terms) -> None:
        self.choices = [Choice(request) for request in requests]
        self._places = places
        self._terms = replace(terms, siblings=Siblings()) if len(requests) > 1 else terms
        self._given_up = False
        self.fault: Exception | None = None  # the first one

    async def run(self, sink: Sink) -> None:
        """Until the last generation has ended. Raises the first fault: what `place` or the
        sink raised, EngineFault or EngineRefusal."""
        first, *others = (self._follow(index, sink) for index in range(len(self.choices)))
        try:
            if others:
                await asyncio.gather(first, *others)
            else:
                await first  # in the request's own task, as nearly all are
        finally:
            self.cancel()
        if self.fault is not None:
            raise self.fault

    def cancel(self) -> None:
        """Stop what runs and give up what waits. Safe to call again, and after the end."""
        self._given_up = True
        for choice in self.choices:
            if choice.waiting is not None:
                choice.waiting.cancel()
                choice.waiting = None  # once: `_place` takes back no more than one
            elif choice.running is not None and choice.finish is None:
                choice.running.cancel()

    def stop(self) -> None:
        """End with ServiceEnds, unless it has failed already."""
        self.fault = self.fault or ServiceEnds()
        self.cancel()

    async def _follow(self, index: int, sink: Sink) -> None:
        choice = self.choices[index]
        try:
            choice.running = await self._place(choice)
            if choice.running is not None:
                await self._generate(choice, choice.running, index, sink)
        except Exception as fault:
            self.fault = self.fault or fault
            self.cancel()

    async def _place(self, choice: Choice) -> Running | None:
        """None if the work was given up before it had its place."""
        if self._given_up:
            return None
        task = choice.waiting = asyncio.current_task()
        try:
            return await self._places.place(choice.request, self._terms)
        except asyncio.CancelledError:
            # Whoever else cancels the task has to be obeyed.
            if not self._given_up or task is None or task.uncancel():
                raise
            return None
        finally:
            choice.waiting = None

    async def _generate(self, choice: Choice, running: Running, index: int, sink: Sink) -> None:
        await sink.placed()
        async for output in running:
            choice.note(output)
            await sink.deliver(index, output, more=running.pending)
        finish = choice.finish
        if finish is not None and finish.reason == "error":
            raise EngineFault(finish.error or "no reason was given")
        if finish is not None and finish.reason == "refused":
            raise EngineRefusal(finish.error or "no reason was given")
