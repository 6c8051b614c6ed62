"""Threads for transactions of one kind, so that they wait for no other kind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TypeVar

from sqlalchemy import Connection

T = TypeVar("T")

Transaction = Callable[[bool], AbstractContextManager[Connection]]
"""`store.database.Database.transaction`, given whether it may write."""


class Lane:
    """Runs transactions on `threads` threads of its own, in the order in which they come."""

    def __init__(self, transaction: Transaction, name: str, threads: int) -> None:
        self._transaction = transaction
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(self, work: Callable[[Connection], T], *, write: bool = False) -> T:
        """`work` in a transaction on a thread. If the caller is cancelled the transaction goes on.

        Raises whatever `store.database.Database.transaction` and the work raise.
        """

        def transact() -> T:
            with self._transaction(write) as connection:
                return work(connection)

        return await asyncio.get_running_loop().run_in_executor(self._threads, transact)

    def close(self) -> None:
        """Wait for what runs."""
        self._threads.shutdown()
