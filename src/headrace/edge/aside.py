"""Work that takes time with the size of a text, kept off the event loop where that is large."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

INLINE_CHARACTERS = 4096
"""Longer texts are parsed and tokenised on another thread, so that no stream waits for them."""

T = TypeVar("T")


class Aside:
    """Two threads, whoever asks."""

    def __init__(self) -> None:
        self._workers = ThreadPoolExecutor(max_workers=2, thread_name_prefix="tokenise")

    async def run(self, size: int, work: Callable[[], T]) -> T:
        """Do it: at once if the text is small. size: its characters or bytes."""
        if size <= INLINE_CHARACTERS:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._workers, work)

    def close(self) -> None:
        self._workers.shutdown(wait=False, cancel_futures=True)
