"""A request as dispatch knows it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from headrace.access.tenant import ServiceClass
from headrace.dispatch.cost import CACHED, OUTPUT, PROMPT
from headrace.dispatch.siblings import Siblings

if TYPE_CHECKING:
    from headrace.dispatch.party import Party


@dataclass(eq=False, slots=True, kw_only=True)
class Entry:
    """prompt, max_tokens: tokens it has and may generate. prefixes: names of its prompt's
    beginnings (`dispatch.prefixes`). arrived: seconds of the dispatcher's clock. asked: until when
    its caller wants a first token. deadline: until when it is worth anything. siblings: the
    generations of one answer, of which this is one. kept: one of those has begun, so that this one
    is not turned away any more. waits: it is in its class's queue. party: its tenant in its class,
    once it was let in.

    cached, expected: tokens of the prompt that need no computing and tokens it will generate, as
    guessed when it came and again when it got its place. generated: so far. charged: to its
    tenant, so far. placed: when, for one that runs. started: whether its prompt is computed.
    mark: how far steps will have come when it ends, as expected (`dispatch.steps`).
    """

    tenant: UUID
    weight: int
    service_class: ServiceClass
    long: bool
    prompt: int
    max_tokens: int
    arrived: float
    asked: float = math.inf
    deadline: float = math.inf
    prefixes: tuple[bytes, ...] = ()
    cached: int = 0
    expected: int = 0
    generated: int = 0
    charged: int = 0
    placed: float | None = None
    started: bool = False
    siblings: Siblings | None = None
    waits: bool = False
    kept: bool = False
    mark: float = 0.0
    party: Party = field(init=False, repr=False)

    def keep(self) -> None:
        self.kept, self.deadline = True, math.inf

    @property
    def cost(self) -> int:
        """What it is expected to cost in all."""
        return PROMPT * (self.prompt - self.cached) + CACHED * self.cached + OUTPUT * self.expected

    @property
    def uncached(self) -> int:
        return self.prompt - self.cached
