"""From a key to whom it belongs, fast."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

import structlog

from headrace.access.cache import ExpiringCache
from headrace.access.credential import Credential, find_credential
from headrace.access.errors import InvalidKey
from headrace.access.key import Key
from headrace.access.principal import Principal
from headrace.access.revision import revision
from headrace.store.database import Database
from headrace.store.errors import DatabaseUnavailable

VALID_SECONDS = 60.0
INVALID_SECONDS = 5.0
POLL_SECONDS = 1.0
CAPACITY = 10_000

log = structlog.get_logger("headrace.access")


class Authenticator:
    """Answers from memory what it has seen within the last minute (5 s for keys that are not
    valid), from the database otherwise.

    Memory is keyed by the key's digest. Between `start` and `stop` it asks the database once a
    second whether any key was changed, by whatever process, and then forgets everything: a
    revoked key lives a second longer at most, or a minute while the database is out of reach.
    """

    def __init__(
        self,
        database: Database,
        pepper: bytes,
        *,
        capacity: int = CAPACITY,
        poll_seconds: float = POLL_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._pepper = pepper
        self._poll_seconds = poll_seconds
        self._now = now
        # Apart, so that a flood of guessed keys cannot drive out the valid ones.
        self._valid = ExpiringCache[bytes, Credential](VALID_SECONDS, capacity, monotonic)
        self._invalid = ExpiringCache[bytes, bool](INVALID_SECONDS, capacity, monotonic)
        self._lookups: dict[bytes, asyncio.Task[Credential | None]] = {}
        self._revision = -1
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to watch for changes. Raises DatabaseUnavailable."""
        await self.refresh()
        self._watching = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching

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

    async def refresh(self) -> None:
        """Forget everything if anything was changed since the last call. Whoever changes something
        in this process calls it afterwards. Raises DatabaseUnavailable."""
        found = await self._database.run(revision)
        if found != self._revision:
            self._revision = found
            self._valid.clear()
            self._invalid.clear()

    async def _look_up_once(self, id: str, digest: bytes) -> Credential | None:
        """Callers that ask for the same key meanwhile share one look-up; those who give up
        leave it to the others."""
        lookup = self._lookups.get(digest)
        if lookup is None:
            lookup = asyncio.create_task(self._look_up(id, digest))
            self._lookups[digest] = lookup
            lookup.add_done_callback(lambda _: self._lookups.pop(digest))
        return await asyncio.shield(lookup)

    async def _look_up(self, id: str, digest: bytes) -> Credential | None:
        before = self._revision
        credential = await self._database.run(
            lambda connection: find_credential(connection, id, digest)
        )
        if before == self._revision:  # else what was read may be older than the change
            if credential is not None and credential.is_valid(self._now()):
                self._valid.put(digest, credential)
            else:
                self._invalid.put(digest, True)
        return credential

    async def _watch(self) -> None:
        reachable = True
        while True:
            await asyncio.sleep(self._poll_seconds)
            try:
                await self.refresh()
                reachable = True
            except DatabaseUnavailable as error:
                if reachable:
                    log.warning("revocations_delayed", reason=str(error))
                reachable = False
