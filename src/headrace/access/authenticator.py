"""From a key to whom it belongs, fast."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b

from headrace.access.cache import ExpiringCache
from headrace.access.changes import Changes
from headrace.access.errors import InvalidKey
from headrace.access.key import Key
from headrace.access.lookups import Found, Lookups
from headrace.access.principal import Principal
from headrace.access.revision import EVERYTHING, Change
from headrace.store.database import Database

VALID_SECONDS = 60.0
INVALID_SECONDS = 5.0
CAPACITY = 10_000
"""Valid keys that are remembered, some 2 KiB each, and as many that are not valid."""

MOST_CHANGES = 10_000
"""Changed keys and tenants that are remembered before everything is forgotten."""


class Authenticator:
    """Answers from memory what it has seen within the last minute (5 s for keys that are not
    valid), from the database otherwise. A request costs the same however many keys there are.

    Memory is keyed by a name that stands for the key in this process alone, and is made faster than
    the digest that the database has. A change that `changes` tells of makes it forget the key or
    the tenant that changed: a revoked key lives for a moment longer, or a minute while the
    database is out of reach.
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
        lane = database.lane("keys", threads=1)
        self._lookups = Lookups(lane, pepper, lambda: changes.revision)
        self._salt = secrets.token_bytes(32)
        self._changes = changes
        self._now = now
        # Apart, so that a flood of guessed keys cannot drive out the valid ones.
        self._valid = ExpiringCache[bytes, Found](VALID_SECONDS, capacity, monotonic)
        self._invalid = ExpiringCache[bytes, Found](INVALID_SECONDS, capacity, monotonic)
        # What was found before these numbers of changes does not hold any more.
        self._changed: dict[Change, int] = {}
        self._all_changed = -1
        changes.subscribe(self._hear)

    async def authenticate(self, raw_key: str) -> Principal:
        """Whom the key belongs to.

        Raises:
            InvalidKey: malformed (which costs no look-up), unknown, expired or revoked.
            DatabaseUnavailable: the key is not in memory and the database cannot be asked.
        """
        name = blake2b(raw_key.encode("utf-8", "surrogatepass"), key=self._salt).digest()
        found = self._valid.get(name) or self._invalid.get(name)
        if found is None or not self._holds(found):
            found = await self._look_up(name, Key.parse(raw_key))
        credential = found.credential
        if credential is None or not credential.is_valid(self._now()):
            raise InvalidKey("unknown, expired or revoked")
        return credential.principal

    async def _look_up(self, name: bytes, key: Key) -> Found:
        found = await self._lookups.find(name, key)
        credential = found.credential
        if credential is not None and credential.is_valid(self._now()):
            self._invalid.discard(name)
            self._valid.put(name, found)
        else:
            self._valid.discard(name)
            self._invalid.put(name, found)
        return found

    def _holds(self, found: Found) -> bool:
        """Whether nothing that it depends on has changed since it was read."""
        changed, credential = self._changed, found.credential
        last = max(self._all_changed, changed.get(Change("key", found.key_id), -1))
        if credential is not None:
            tenant = Change("tenant", credential.principal.tenant.name)
            last = max(last, changed.get(tenant, -1))
        return found.revision >= last

    def _hear(self, changes: Sequence[Change]) -> None:
        number = self._changes.revision
        if EVERYTHING in changes or len(self._changed) + len(changes) > MOST_CHANGES:
            self._all_changed = number
            self._changed.clear()
        else:
            self._changed.update((c, number) for c in changes if c.kind in ("key", "tenant"))
