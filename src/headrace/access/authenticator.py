"""From a key to whom it belongs, fast."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from hashlib import blake2b

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

    Memory is keyed by a name that stands for the key in this process alone, and is made faster than
    the digest that the database has. All of it is forgotten after any change that `changes`
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
        self._salt = secrets.token_bytes(32)
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
        name = blake2b(raw_key.encode("utf-8", "surrogatepass"), key=self._salt).digest()
        credential = self._valid.get(name)
        if credential is None and self._invalid.get(name) is None:
            credential = await self._look_up_once(name, Key.parse(raw_key))
        if credential is None or not credential.is_valid(self._now()):
            raise InvalidKey("unknown, expired or revoked")
        return credential.principal

    def _forget(self) -> None:
        self._valid.clear()
        self._invalid.clear()
        self._lookups.clear()  # those on their way may read what was before the change

    async def _look_up_once(self, name: bytes, key: Key) -> Credential | None:
        """Callers that ask for the same key meanwhile share one look-up; those who give up
        leave it to the others."""
        lookup = self._lookups.get(name)
        if lookup is None:
            lookup = asyncio.create_task(self._look_up(name, key))
            self._lookups[name] = lookup
            lookup.add_done_callback(lambda done: self._looked_up(name, done))
        return await asyncio.shield(lookup)

    def _looked_up(self, name: bytes, lookup: asyncio.Task[Credential | None]) -> None:
        if self._lookups.get(name) is lookup:
            del self._lookups[name]

    async def _look_up(self, name: bytes, key: Key) -> Credential | None:
        before, digest = self._changes.revision, key.digest(self._pepper)
        credential = await self._database.run(
            lambda connection: find_credential(connection, key.id, digest)
        )
        if before == self._changes.revision:  # else what was read may be older than the change
            if credential is not None and credential.is_valid(self._now()):
                self._valid.put(name, credential)
            else:
                self._invalid.put(name, True)
        return credential
