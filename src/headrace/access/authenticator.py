"""From a key to whom it belongs, fast."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from headrace.access.cache import ExpiringCache
from headrace.access.changes import Changes
from headrace.access.credential import Credential, find_credential
from headrace.access.errors import InvalidKey
from headrace.access.key import Key
from headrace.access.principal import Principal
from headrace.store.database import Database

VALID_SECONDS = 60.0
INVALID_SECONDS = 5.0
CAPACITY = 10_000


class Authenticator:
    """Answers from memory what it has seen within the last minute (5 s for keys that are not
    valid), from the database otherwise.

    Memory is keyed by the key's digest. All of it is forgotten after any change that `changes`
    tells of: a revoked key lives for a moment longer, or a minute while the database is out of
    reach.
    """

    def __init__(
        self,
        database: Database,
        pepper: bytes,
        changes: Changes,
        *,
        capacity: int = CAPACITY,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._pepper = pepper
        self._changes = changes
        self._now = now
        # Apart, so that a flood of guessed keys cannot drive out the valid ones.
        self._valid = ExpiringCache[bytes, Credential](VALID_SECONDS, capacity, monotonic)
        self._invalid = ExpiringCache[bytes, bool](INVALID_SECONDS, capacity, monotonic)
        self._lookups: dict[bytes, asyncio.Task[Credential | None]] = {}
        changes.subscribe(self._forget)

    async def authenticate(self, raw_key: str) -> Principal:
        """Whom the key belongs to.

        Raises:
            InvalidKey: malformed (which costs no look-up), unknown, expired or revoked.
            DatabaseUnavailable: the key is not in memory and the database cannot be asked.
        """
        key = Key.parse(raw_key)
        digest = key.digest(self._pepper)
        credential = self._valid.get(digest)
        if credential is None and self._invalid.get(digest) is None:
            credential = await self._look_up_once(key.id, digest)
        if credential is None or not credential.is_valid(self._now()):
            raise InvalidKey("unknown, expired or revoked")
        return credential.principal

    def _forget(self) -> None:
        self._valid.clear()
        self._invalid.clear()
        self._lookups.clear()  # those on their way may read what was before the change

    async def _look_up_once(self, id: str, digest: bytes) -> Credential | None:
        """Callers that ask for the same key meanwhile share one look-up; those who give up
        leave it to the others."""
        lookup = self._lookups.get(digest)
        if lookup is None:
            lookup = asyncio.create_task(self._look_up(id, digest))
            self._lookups[digest] = lookup
            lookup.add_done_callback(lambda done: self._looked_up(digest, done))
        return await asyncio.shield(lookup)

    def _looked_up(self, digest: bytes, lookup: asyncio.Task[Credential | None]) -> None:
        if self._lookups.get(digest) is lookup:
            del self._lookups[digest]

    async def _look_up(self, id: str, digest: bytes) -> Credential | None:
        before = self._changes.revision
        credential = await self._database.run(
            lambda connection: find_credential(connection, id, digest)
        )
        if before == self._changes.revision:  # else what was read may be older than the change
            if credential is not None and credential.is_valid(self._now()):
                self._valid.put(digest, credential)
            else:
                self._invalid.put(digest, True)
        return credential
