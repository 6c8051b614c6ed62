"""Keys in the database. Every function works inside the caller's transaction; the changes want a
write transaction."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, insert, or_, select, tuple_, update

from headrace.access.audit import record
from headrace.access.errors import AccessError, AlreadyExists, NotFound
from headrace.access.key import Key
from headrace.access.limits import UNLIMITED, Limits
from headrace.access.principal import SCOPES, Scope
from headrace.access.revision import Change, begin_change
from headrace.access.tenants import ensure_tenant
from headrace.store.schema import key_secrets, keys, tenants

KeyState = Literal["valid", "expired", "revoked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSecret:
    """A secret that the key has or had. expires_at: unix milliseconds; digest: see `Key.digest`."""

    digest: bytes = field(repr=False)
    created_at: int
    expires_at: int | None

    def is_live(self, now: float) -> bool:
        """Whether it opens anything at this moment, in unix seconds, if its key does."""
        return self.expires_at is None or self.expires_at > now * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """What is known of a key. Moments are unix milliseconds. secrets: all it ever had, the newest
    first; two of them at most are live."""

    id: str
    tenant_id: UUID
    tenant: str
    scopes: frozenset[Scope]
    limits: Limits
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    secrets: tuple[StoredSecret, ...]

    def is_valid(self, now: float) -> bool:
        """Whether it opens anything at this moment, in unix seconds."""
        return self.revoked_at is None and not self.is_expired(now)

    def is_expired(self, now: float) -> bool:
        return self.expires_at is not None and self.expires_at <= now * 1000

    def state(self, now: float) -> KeyState:
        """At this moment, in unix seconds."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.is_expired(now) else "valid"


def find_key(connection: Connection, id: str) -> StoredKey | None:
    return next(_load(connection, keys.c.id == id), None)


def find_keys(connection: Connection, ids: Collection[str]) -> dict[str, StoredKey]:
    """Those of these ids that there are, by their ids."""
    return {stored.id: stored for stored in _load(connection, keys.c.id.in_(ids))}


def get_key(connection: Connection, id: str) -> StoredKey:
    """Raises NotFound."""
    stored = find_key(connection, id)
    if stored is None:
        raise NotFound(f"there is no key {id}")
    return stored


def list_keys(
    connection: Connection,
    tenant: str | None = None,
    *,
    after: str | None = None,
    limit: int | None = None,
) -> list[StoredKey]:
    """All keys, or a tenant's, the oldest first; or the first `limit` behind the key `after`.
    Raises NotFound: there is no such key."""
    order = keys.c.created_at, keys.c.id
    page = select(keys.c.id).select_from(keys.join(tenants)).order_by(*order).limit(limit)
    if tenant is not None:
        page = page.where(tenants.c.name == tenant)
    if after is not None:
        last = get_key(connection, after)
        page = page.where(tuple_(*order) > (last.created_at, last.id))
    return list(_load(connection, keys.c.id.in_(page)))


def create_key(
    connection: Connection,
    key: Key,
    pepper: bytes,
    *,
    tenant: str,
    scopes: Iterable[str],
    actor: str,
    expires_at: int | None = None,
    limits: Limits = UNLIMITED,
) -> StoredKey:
    """Make the key valid for a tenant, which is created if there is none of that name.

    Raises:
        AlreadyExists: the id is taken.
        AccessError: an unknown scope or none, an unusable name or limit.
    """
    begin_change(connection, Change("key", key.id))
    granted = _scopes(scopes)
    if find_key(connection, key.id) is not None:
        raise AlreadyExists(f"there is a key {key.id} already")
    values = {
        "id": key.id,
        "tenant_id": ensure_tenant(connection, tenant, actor=actor).id,
        "scopes": " ".join(sorted(granted)),
        "limits": msgspec.json.encode(limits.checked().given()).decode(),
        "created_at": _now(),
        "expires_at": expires_at,
    }
    connection.execute(insert(keys).values(values))
    _add_secret(connection, key, pepper, number=1)
    stored = get_key(connection, key.id)
    record(connection, actor, "key.create", key.id, after=state_of(stored))
    return stored


def limit_key(
    connection: Connection, id: str, change: Callable[[Limits], Limits], *, actor: str
) -> StoredKey:
    """Give a key other limits, made of those it has.

    Raises:
        NotFound
        AccessError: a limit is out of range.
    """
    begin_change(connection, Change("key", id))
    before = get_key(connection, id)
    limits = msgspec.json.encode(change(before.limits).checked().given()).decode()
    connection.execute(update(keys).where(keys.c.id == id).values(limits=limits))
    return _recorded(connection, actor, "key.update", before)


def rotate_key(
    connection: Connection, key: Key, pepper: bytes, *, grace: int, actor: str
) -> StoredKey:
    """Give the key of this id the secret of `key` too (`Key.make(id)`). Its last one lives for
    `grace` milliseconds more, at most; any before that ends now.

    Raises:
        NotFound
        AccessError: the key is revoked or expired, or the grace is negative.
    """
    begin_change(connection, Change("key", key.id))
    if grace < 0:
        raise AccessError("the grace of an old secret cannot be negative")
    before = get_key(connection, key.id)
    now = _now()
    if not before.is_valid(now / 1000):
        raise AccessError(f"key {key.id} is revoked or expired; make a new one")
    last, *older = before.secrets
    _end_secrets(connection, key.id, [secret.digest for secret in older], now)
    _end_secrets(connection, key.id, [last.digest], now + grace)
    _add_secret(connection, key, pepper, number=1 + len(before.secrets))
    return _recorded(connection, actor, "key.rotate", before)


def replace_secret(connection: Connection, key: Key, pepper: bytes, *, actor: str) -> StoredKey:
    """Give the key of this id another secret instead of all it had, with which it is valid again.

    Raises:
        NotFound
    """
    begin_change(connection, Change("key", key.id))
    before = get_key(connection, key.id)
    _end_secrets(connection, key.id, [secret.digest for secret in before.secrets], _now())
    _add_secret(connection, key, pepper, number=1 + len(before.secrets))
    values = {"expires_at": None, "revoked_at": None}
    connection.execute(update(keys).where(keys.c.id == key.id).values(values))
    return _recorded(connection, actor, "key.replace", before)


def end_all_secrets(connection: Connection) -> None:
    """Let all secrets of all keys end now. `rotate_key` gives a key another one. The caller notes
    the change."""
    ends, now = key_secrets.c.expires_at, _now()
    connection.execute(
        update(key_secrets).where(or_(ends.is_(None), ends > now)).values(expires_at=now)
    )


def revoke_key(connection: Connection, id: str, *, actor: str) -> StoredKey:
    """End a key for good. To do it again changes nothing.

    Raises:
        NotFound
    """
    begin_change(connection, Change("key", id))
    before = get_key(connection, id)
    if before.revoked_at is None:
        connection.execute(update(keys).where(keys.c.id == id).values(revoked_at=_now()))
    return _recorded(connection, actor, "key.revoke", before)


def state_of(stored: StoredKey) -> dict[str, object]:
    """What is known of a key but for its secrets, as JSON may hold it: of those, when they were
    made and when they end."""
    return {
        "tenant": stored.tenant,
        "scopes": sorted(stored.scopes),
        "limits": stored.limits.given(),
        "expires_at": stored.expires_at,
        "revoked_at": stored.revoked_at,
        "secrets": [
            {"created_at": secret.created_at, "expires_at": secret.expires_at}
            for secret in stored.secrets
        ],
    }


def _recorded(connection: Connection, actor: str, action: str, before: StoredKey) -> StoredKey:
    after = get_key(connection, before.id)
    states = {"before": state_of(before), "after": state_of(after)}
    record(connection, actor, action, before.id, **states)
    return after


def _add_secret(connection: Connection, key: Key, pepper: bytes, *, number: int) -> None:
    connection.execute(
        insert(key_secrets).values(
            key_id=key.id, number=number, digest=key.digest(pepper), created_at=_now()
        )
    )


def _end_secrets(connection: Connection, id: str, digests: list[bytes], moment: int) -> None:
    """Let them end at this moment, if they do not end before."""
    ends = key_secrets.c.expires_at
    connection.execute(
        update(key_secrets)
        .where(key_secrets.c.key_id == id, key_secrets.c.digest.in_(digests))
        .where(or_(ends.is_(None), ends > moment))
        .values(expires_at=moment)
    )


def _scopes(words: Iterable[str]) -> frozenset[Scope]:
    wanted = set(words)
    if unknown := wanted - set(SCOPES):
        raise AccessError(f"unknown scope {min(unknown)!r}; there are {' and '.join(SCOPES)}")
    if not wanted:
        raise AccessError(f"a key needs a scope: {' or '.join(SCOPES)}")
    return frozenset(scope for scope in SCOPES if scope in wanted)


def _load(connection: Connection, condition: ColumnElement[bool]) -> Iterator[StoredKey]:
    held = keys.join(tenants)
    chosen = select(keys, tenants.c.name.label("tenant")).select_from(held).where(condition)
    rows = connection.execute(chosen.order_by(keys.c.created_at, keys.c.id)).all()
    secrets: defaultdict[str, list[StoredSecret]] = defaultdict(list)
    owned = select(key_secrets).select_from(key_secrets.join(held)).where(condition)
    for row in connection.execute(owned.order_by(key_secrets.c.number.desc())):
        secrets[row.key_id].append(
            StoredSecret(digest=row.digest, created_at=row.created_at, expires_at=row.expires_at)
        )
    return (_stored(row, tuple(secrets[row.id])) for row in rows)


def _stored(row: Row[tuple[object, ...]], secrets: tuple[StoredSecret, ...]) -> StoredKey:
    values = dict(row._mapping)
    known = frozenset(scope for scope in SCOPES if scope in values["scopes"].split())
    limits = Limits.of(msgspec.json.decode(values["limits"], type=dict[str, object]))
    return StoredKey(**values | {"scopes": known, "limits": limits, "secrets": secrets})


def _now() -> int:
    return time.time_ns() // 1_000_000
