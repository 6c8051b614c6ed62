"""Tenants and keys in the database: what can be asked and what can be changed.

Every function works inside the caller's transaction; the changes want a write transaction.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from sqlalchemy import Connection, Row, Select, insert, select, update

from headrace.access.errors import AccessError
from headrace.access.key import Key
from headrace.access.principal import SCOPES, Scope
from headrace.store.ids import uuid7
from headrace.store.schema import counters, keys, tenants

TENANT_LENGTH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """What is known of a key. Moments are unix milliseconds; digest: see `Key.digest`."""

    id: str
    tenant_id: UUID
    tenant: str
    scopes: frozenset[Scope]
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    digest: bytes = field(repr=False)

    def is_valid(self, now: float) -> bool:
        """Whether it opens anything at this moment, in unix seconds."""
        return self.revoked_at is None and not self.is_expired(now)

    def is_expired(self, now: float) -> bool:
        return self.expires_at is not None and self.expires_at <= now * 1000


def find_key(connection: Connection, id: str) -> StoredKey | None:
    row = connection.execute(_select().where(keys.c.id == id)).one_or_none()
    return row and _stored(row)


def list_keys(connection: Connection, tenant: str | None = None) -> list[StoredKey]:
    """All keys, or a tenant's, the oldest first."""
    query = _select().order_by(keys.c.created_at, keys.c.id)
    if tenant is not None:
        query = query.where(tenants.c.name == tenant)
    return [_stored(row) for row in connection.execute(query)]


def keys_revision(connection: Connection) -> int:
    """A number that every change to keys raises."""
    return connection.scalars(_revision()).one()


def lock_keys(connection: Connection) -> None:
    """Let no other process change keys until the transaction ends. On SQLite a write
    transaction has that already."""
    connection.execute(_revision().with_for_update())


def create_key(
    connection: Connection,
    key: Key,
    pepper: bytes,
    *,
    tenant: str,
    scopes: Iterable[str],
    expires_at: int | None = None,
) -> StoredKey:
    """Make the key valid for a tenant, which is created if there is none of that name.

    Raises:
        AccessError: an unknown scope or none, an unusable name, an id that is taken.
    """
    _raise_revision(connection)
    granted = _scopes(scopes)
    if find_key(connection, key.id) is not None:
        raise AccessError(f"there is a key {key.id} already")
    stored = StoredKey(
        id=key.id,
        tenant_id=_ensure_tenant(connection, tenant),
        tenant=tenant,
        scopes=granted,
        created_at=_now(),
        expires_at=expires_at,
        revoked_at=None,
        digest=key.digest(pepper),
    )
    connection.execute(
        insert(keys).values(
            id=stored.id,
            tenant_id=stored.tenant_id,
            digest=stored.digest,
            scopes=" ".join(sorted(granted)),
            created_at=stored.created_at,
            expires_at=stored.expires_at,
        )
    )
    return stored


def replace_secret(connection: Connection, key: Key, pepper: bytes) -> None:
    """Give the key of this id another secret, with which it is valid again."""
    _raise_revision(connection)
    values = {"digest": key.digest(pepper), "expires_at": None, "revoked_at": None}
    connection.execute(update(keys).where(keys.c.id == key.id).values(values))


def revoke_key(connection: Connection, id: str) -> StoredKey:
    """End a key for good. To do it again changes nothing.

    Raises:
        AccessError: there is no such key.
    """
    _raise_revision(connection)
    connection.execute(
        update(keys).where(keys.c.id == id, keys.c.revoked_at.is_(None)).values(revoked_at=_now())
    )
    stored = find_key(connection, id)
    if stored is None:
        raise AccessError(f"there is no key {id}")
    return stored


def _raise_revision(connection: Connection) -> None:
    """Locks the keys too, see `lock_keys`: whoever comes second waits for the first."""
    connection.execute(
        update(counters).where(counters.c.name == "keys").values(value=counters.c.value + 1)
    )


def _ensure_tenant(connection: Connection, name: str) -> UUID:
    if not name.isprintable() or name != name.strip() or not 0 < len(name) <= TENANT_LENGTH:
        raise AccessError(f"a tenant's name is 1 to {TENANT_LENGTH} printable characters")
    id = connection.execute(select(tenants.c.id).where(tenants.c.name == name)).scalar()
    if id is None:
        id = uuid7()
        connection.execute(insert(tenants).values(id=id, name=name, created_at=_now()))
    return id


def _scopes(words: Iterable[str]) -> frozenset[Scope]:
    wanted = set(words)
    if unknown := wanted - set(SCOPES):
        raise AccessError(f"unknown scope {min(unknown)!r}; there are {' and '.join(SCOPES)}")
    if not wanted:
        raise AccessError(f"a key needs a scope: {' or '.join(SCOPES)}")
    return frozenset(scope for scope in SCOPES if scope in wanted)


def _revision() -> Select[int]:
    return select(counters.c.value).where(counters.c.name == "keys")


def _select() -> Select[tuple[object, ...]]:
    return select(keys, tenants.c.name.label("tenant")).join(tenants)


def _stored(row: Row[tuple[object, ...]]) -> StoredKey:
    values = dict(row._mapping)
    known = frozenset(scope for scope in SCOPES if scope in values["scopes"].split())
    return StoredKey(**values | {"scopes": known})


def _now() -> int:
    return time.time_ns() // 1_000_000
