"""Grammars compiled beside the engine."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Hashable, Iterable, Sequence
from concurrent.futures import Future
from typing import Protocol

from headrace.engine.constraint import Constraint
from headrace.grammar.grammar import Grammar
from headrace.turns.threads import FairThreads, Steps, in_one

THREADS = 2
"""One owner's grammars take all but one of them."""

REPLAYED = 256
"""Tokens that are replayed in one step: some 20 ms."""

_NICER = 10
"""Added to the niceness of the process, which a service manager may have raised already."""

_NICEST = 19


class Compiles(Protocol):
    """What is needed of a compiler (`grammar.compiler.Compiler`)."""

    def prepare(self) -> None: ...

    def compile(self, grammar: Grammar, ending_ids: Iterable[int]) -> Constraint: ...


class Constraining:
    """Makes constraints (`engine.constraint.Constraints`) on threads that give way to the model's,
    where the system has priorities of threads. Owners take turns on them."""

    def __init__(self, compiler: Compiles) -> None:
        """compiler: may be called by several threads, and lets others run meanwhile."""
        self._compiler = compiler
        # Compiling runs on a thread of its own: this thread's processor time would not count it.
        self._threads = FairThreads(
            THREADS, "grammar", prepare_thread=_give_way, clock=time.monotonic
        )

    def open(self) -> None:
        """Have ready what every grammar needs, so that the first doesn't wait for it. Returns at
        once."""
        self._threads.submit(None, in_one(self._compiler.prepare))

    def __call__(
        self,
        grammar: Grammar,
        ending_ids: frozenset[int],
        taken: Sequence[int],
        owner: Hashable,
    ) -> Future[Constraint]:
        return self._threads.submit(owner, self._make(grammar, ending_ids, taken))

    def _make(
        self, grammar: Grammar, ending_ids: frozenset[int], taken: Sequence[int]
    ) -> Steps[Constraint]:
        constraint = self._compiler.compile(grammar, ending_ids)
        for number, token in enumerate(taken):
            if number % REPLAYED == 0:
                yield None
            constraint.accept(token)
        return constraint


def _give_way() -> None:
    # On Linux a thread has a niceness of its own, and at first that of the thread that started it.
    with contextlib.suppress(OSError, AttributeError):
        thread = threading.get_native_id()
        niceness = os.getpriority(os.PRIO_PROCESS, thread)
        os.setpriority(os.PRIO_PROCESS, thread, min(niceness + _NICER, _NICEST))
