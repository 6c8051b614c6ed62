"""Spikes of load on the real arbiter, in virtual time, before an engine that is played."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from uuid import UUID

from headrace.access.tenant import ServiceClass
from headrace.dispatch.arbiter import Arbiter
from headrace.dispatch.entry import Entry
from headrace.dispatch.policy import usual_policies

PLACES = 64
STEP_TOKENS = 256
PROMPTS_BESIDE = 64  # tokens of prompts in a step in which others decode
BASE, PER_TOKEN = 0.02, 0.001  # seconds of a step, and of each of its tokens
AT_ONCE = 1  # steps that are played as one
CALM = 0.5


@dataclass(frozen=True)
class Kind:
    """A tenant's requests: `part` of all. Prompts and answers have half as many tokens to as many,
    at random; max_tokens is that of the answer at most. deadline: the caller's, in seconds."""

    tenant: int
    service_class: ServiceClass
    part: float
    prompt: int
    output: int
    deadline: float = math.inf


def one_class(deadline: float) -> tuple[Kind, ...]:
    """Tenants that ask for four to one, three to one and two to one of the smallest."""
    parts = enumerate((0.4, 0.3, 0.2, 0.1))
    return tuple(Kind(n, "default", part, 192, 64, deadline) for n, part in parts)


MIXED = (
    Kind(0, "interactive", 0.10, 128, 64),
    Kind(1, "interactive", 0.30, 128, 64),
    Kind(2, "default", 0.04, 200, 80),
    Kind(3, "default", 0.40, 200, 80),
    Kind(4, "batch", 0.16, 400, 80),
)


@dataclass(eq=False)
class Request:
    entry: Entry
    kind: Kind
    output: int
    uncomputed: int
    first: float | None = None
    refused: bool = False
    shed: bool = False

    @property
    def late(self) -> bool:
        """It was let in, and did not get its place by its class's deadline, or its first token by
        its caller's."""
        return self.shed or (self.first is not None and self.first > self.entry.asked)


@dataclass
class Outcome:
    requests: list[Request] = field(default_factory=list)

    def of(self, *classes: ServiceClass) -> Outcome:
        return Outcome([r for r in self.requests if r.kind.service_class in classes])

    @property
    def refused(self) -> float:
        """Part of those that came."""
        return sum(r.refused for r in self.requests) / max(len(self.requests), 1)

    @property
    def late(self) -> float:
        """Part of those that were let in."""
        let_in = [r for r in self.requests if not r.refused]
        return sum(r.late for r in let_in) / max(len(let_in), 1)

    @property
    def longest(self) -> float:
        firsts = [r.first - r.entry.arrived for r in self.requests if r.first is not None]
        return max(firsts, default=0.0)


class Engine:
    """Decodes and computes prompts, first come, first served, in steps that take as long as they
    have tokens."""

    def __init__(self, seed: int, arbiter: Arbiter | None = None) -> None:
        self.arbiter = arbiter or Arbiter(usual_policies(1024))
        self.arbiter.resize(PLACES, 10**6, 4 * STEP_TOKENS)
        self.now = 0.0
        self.outcome = Outcome()
        self._dice = random.Random(seed)
        self._requests: dict[Entry, Request] = {}
        self._prompts: deque[Request] = deque()
        self._decoding: list[Request] = []

    def arrive(self, kind: Kind, at: float) -> Request:
        prompt = self._dice.randint(kind.prompt // 2, kind.prompt)
        entry = Entry(
            tenant=UUID(int=kind.tenant + 1),
            weight=1,
            service_class=kind.service_class,
            long=False,
            prompt=prompt,
            max_tokens=kind.output,
            arrived=at,
            asked=at + kind.deadline,
        )
        output = self._dice.randint(kind.output // 2, kind.output)
        request = Request(entry, kind, output, prompt)
        request.refused = self.arbiter.join(entry, at) is not None
        self.outcome.requests.append(request)
        if not request.refused:
            self._requests[entry] = request
            self._advance(at)
        return request

    def open(self, kinds: tuple[Kind, ...], rate: float, seconds: float) -> Iterator[Request]:
        """So many a second, at random, for so long."""
        end = at = self.now + 0.0
        end += seconds
        while (at := at + self._dice.expovariate(rate)) < end:
            self.run(at)
            yield self.arrive(self._dice.choices(kinds, [k.part for k in kinds])[0], at)
        self.run(end)

    def run(self, until: float) -> None:
        while self.now < until:
            if self._decoding or self._prompts:
                self._step()
            else:
                self.now = until
                self._advance(self.now)

    def drain(self) -> None:
        while self._requests:
            self.run(self.now + 1)

    def _advance(self, now: float) -> None:
        moves = self.arbiter.advance(now)
        for entry, _ in moves.shed:
            self._requests.pop(entry).shed = True
        self._prompts.extend(self._requests[entry] for entry in moves.placed)

    def _step(self) -> None:
        room = AT_ONCE * (PROMPTS_BESIDE if self._decoding else STEP_TOKENS)
        tokens = AT_ONCE * len(self._decoding)
        decoding, begun = list(self._decoding), []
        while self._prompts and room:
            request = self._prompts[0]
            count = min(room, request.uncomputed)
            request.uncomputed -= count
            room -= count
            tokens += count
            if not request.uncomputed:
                begun.append(self._prompts.popleft())
        self.now += AT_ONCE * BASE + tokens * PER_TOKEN
        for request in begun:
            request.first = self.now
            self.arbiter.note(request.entry, 1, self.now)
            self._decoding.append(request)
        for request in decoding:
            entry = request.entry
            more = min(AT_ONCE, request.output - entry.generated)
            if more > 0:
                self.arbiter.note(entry, more, self.now)
            if entry.generated >= request.output:
                self._decoding.remove(request)
                self.arbiter.end(entry, self.now, cached=0, answered=True)
                del self._requests[entry]
        self._advance(self.now)


@cache
def capacity(kinds: tuple[Kind, ...]) -> float:
    """Requests a second that the engine answers at most."""
    engine = Engine(1)
    patient = tuple(Kind(k.tenant, "batch", k.part, k.prompt, k.output) for k in kinds)
    dice = random.Random(2)
    while engine.now < 60:
        while engine.arbiter.waiting < 20:
            engine.arrive(dice.choices(patient, [k.part for k in patient])[0], engine.now)
        engine._step()
    ended = [r for r in engine.outcome.requests if r.entry.generated >= r.output and r.first]
    return sum(r.first is not None and r.first > 20 for r in ended) / 40


def spike(
    kinds: tuple[Kind, ...], seconds: float, *, warm: bool, seed: int, times: float = 5.0
) -> Outcome:
    """Of those that came in a spike of so many times what can be served, in which the calm load
    before (if it is warm) and after it goes on beside."""
    engine = Engine(seed)
    rate = capacity(kinds)
    if warm:
        list(engine.open(kinds, CALM * rate, 20))
    spiked = Outcome(list(engine.open(kinds, times * rate, seconds)))
    calm = [k for k in kinds if k.service_class != "batch"]
    longest = max(min(k.deadline, usual_policies(0)[k.service_class].deadline) for k in calm)
    list(engine.open(kinds, CALM * rate, longest))
    engine.drain()
    return spiked
