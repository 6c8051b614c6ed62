"""A request on its way through dispatch."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from headrace.dispatch.entry import Entry
from headrace.dispatch.generation import Generation
from headrace.engine.request import GenerationRequest


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """What waits for it in the arbiter, and the future that brings its generation or why there
    is none."""

    entry: Entry
    request: GenerationRequest
    granted: asyncio.Future[Generation]
