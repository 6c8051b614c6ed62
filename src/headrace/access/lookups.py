"""Keys that are looked up in the database, as many as wait in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from headrace.access.credential import Credential, find_credentials
from headrace.access.key import Key
from headrace.store.errors import DatabaseUnavailable
from headrace.store.lane import Lane

BATCH = 500
MOST_WAITING = 10_000
"""Different keys that may wait; more are turned away."""


@dataclass(frozen=True, slots=True)
class Found:
    """What the database has of a key. credential: None if there is no such key, or it is revoked.
    revision: the number of changes that this process had heard of before it asked."""

    key_id: str
    credential: Credential | None
    revision: int


@dataclass(slots=True)
class _Asked:
    key: Key
    answer: asyncio.Future[Found]


class Lookups:
    """Looks up all keys that wait in one transaction, on a thread of its own.

    So in a flood of unknown keys each key costs little, and a valid key behind them waits for a few
    transactions, not for one for each key. Callers that ask for the same key meanwhile share one
    look-up.

    revision: the number of changes that this process has heard of.
    """

    def __init__(self, lane: Lane, pepper: bytes, revision: Callable[[], int]) -> None:
        self._lane = lane
        self._pepper = pepper
        self._revision = revision
        self._waiting: dict[bytes, _Asked] = {}
        self._reading: dict[bytes, _Asked] = {}
        self._read_at = -1
        self._running: asyncio.Task[None] | None = None

    async def find(self, name: bytes, key: Key) -> Found:
        """name: stands for the whole key. The look-up goes on if a caller is cancelled.

        Raises DatabaseUnavailable.
        """
        asked = self._waiting.get(name)
        if asked is None and self._read_at == self._revision():  # else it may read what was before
            asked = self._reading.get(name)
        if asked is None:
            if len(self._waiting) >= MOST_WAITING:
                raise DatabaseUnavailable(f"{len(self._waiting)} keys wait to be looked up")
            asked = _Asked(key, asyncio.get_running_loop().create_future())
            self._waiting[name] = asked
            if self._running is None:
                self._running = asyncio.create_task(self._run())
        return await asyncio.shield(asked.answer)

    async def _run(self) -> None:
        try:
            while self._waiting:
                first = list(self._waiting)[:BATCH]
                self._reading = {name: self._waiting.pop(name) for name in first}
                await self._read(list(self._reading.values()))
        finally:
            self._reading = {}
            self._running = None

    async def _read(self, batch: list[_Asked]) -> None:
        revision = self._read_at = self._revision()
        pairs = [(asked.key.id, asked.key.digest(self._pepper)) for asked in batch]
        try:
            found = await self._lane.run(lambda connection: find_credentials(connection, pairs))
        except BaseException as error:
            for asked in batch:
                asked.answer.set_exception(error)
                asked.answer.exception()  # whether or not anybody still waits for it
            if not isinstance(error, Exception):
                raise
            return
        for asked, credential in zip(batch, found, strict=True):
            asked.answer.set_result(Found(asked.key.id, credential, revision))
