"""Grammars made and tried beside the event loop, before a queue or the engine is touched."""

from __future__ import annotations

import time
from collections.abc import Callable

from headrace.api.openai.errors import rate_limited
from headrace.edge.admission import Admission
from headrace.edge.answer_grammar import naming
from headrace.edge.intake import RETRY_MS
from headrace.edge.services import Compiler
from headrace.grammar import Grammar
from headrace.turns.threads import FairThreads, Steps, in_one

MOST_WAITING = 64
"""Grammars of one tenant that may wait to be compiled for one model."""


class GrammarDesk:
    """One step at a time, in turns of the tenants: a grammar that takes long delays others of its
    tenant, and those of other tenants by one step."""

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler
        # Compiling runs on a thread of its own: this thread's processor time would not count it.
        self._threads = FairThreads(1, "grammar", clock=time.monotonic)

    def open(self) -> None:
        """Have ready what every grammar needs, before the first is asked for."""
        self._threads.submit(None, in_one(self._compiler.prepare))

    async def check(
        self, make: Callable[[], Grammar | None], param: str, admission: Admission
    ) -> Grammar | None:
        """What is made, if it compiles. It counts towards limits of requests. param: what asked
        for it. Raises BodyError, ApiError where the tenant has too many waiting, and what
        `Admission.turn` raises."""
        if self._threads.waiting(admission.principal.tenant.id) >= MOST_WAITING:
            raise rate_limited(
                f"{MOST_WAITING} of your requests wait for their schemas, grammars or tools to be "
                "compiled. Please send fewer of them at once.",
                "requests",
                after=RETRY_MS,
                final=False,
            )
        await admission.enter()
        return await admission.turn(self._threads, self._checked(make, param))

    def close(self) -> None:
        """End the thread."""
        self._threads.close()

    def _checked(self, make: Callable[[], Grammar | None], param: str) -> Steps[Grammar | None]:
        grammar = make()
        if grammar is not None:
            yield None
            naming(param, lambda: self._compiler.compile(grammar, ()))
        return grammar
