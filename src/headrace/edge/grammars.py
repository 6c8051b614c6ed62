"""Grammars made and tried beside the event loop, before a queue or the engine is touched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from headrace.edge.answer_grammar import naming
from headrace.edge.services import Compiler
from headrace.grammar import Grammar


class GrammarDesk:
    """One at a time: a schema that takes long delays other schemas, and nobody else."""

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="grammar")

    def open(self) -> None:
        """Have ready what every grammar needs, before the first is asked for."""
        self._worker.submit(self._compiler.prepare)

    async def check(self, make: Callable[[], Grammar | None], param: str) -> Grammar | None:
        """What is made, if it compiles. param: what asked for it. Raises BodyError."""

        def work() -> Grammar | None:
            grammar = make()
            if grammar is not None:
                naming(param, lambda: self._compiler.compile(grammar, ()))
            return grammar

        return await asyncio.get_running_loop().run_in_executor(self._worker, work)

    def close(self) -> None:
        self._worker.shutdown(wait=False, cancel_futures=True)
