"""API keys, administered."""

from __future__ import annotations

import time
from typing import Any

from headrace.access.errors import AccessError
from headrace.access.key import Key
from headrace.access.keys import (
    StoredKey,
    create_key,
    get_key,
    limit_key,
    list_keys,
    revoke_key,
    rotate_key,
)
from headrace.access.limits import UNLIMITED
from headrace.access.tenants import get_tenant
from headrace.api.admin.keys import (
    KeyBody,
    KeyPage,
    KeysQuery,
    KeyView,
    Rotation,
    SecretView,
    ShownKey,
)
from headrace.edge.admin.endpoint import Ask
from headrace.edge.admin.office import Office
from headrace.edge.admin.values import changed, cursors, given, limits_view, milliseconds, seconds


class Keys:
    def __init__(self, office: Office) -> None:
        self._office = office

    async def list(self, ask: Ask) -> KeyPage:
        query: KeysQuery = ask.query
        tenant, after = given(query.tenant), given(query.after)
        found = await self._office.look(
            lambda db: list_keys(db, tenant, after=after, limit=query.limit + 1)
        )
        data = [KeyView(**_fields(key)) for key in found[: query.limit]]
        return KeyPage(data=data, **cursors([key.id for key in found], query.limit))

    async def create(self, ask: Ask) -> ShownKey:
        body: KeyBody = ask.body
        limits, expires_at = changed(UNLIMITED, body.limits), milliseconds(body.expires_at)
        if expires_at is not None and expires_at <= time.time() * 1000:
            raise AccessError("expires_at is in the past")
        key = Key.make()

        def work(db: Any) -> StoredKey:
            return create_key(
                db,
                key,
                self._office.pepper,
                tenant=get_tenant(db, body.tenant).name,
                scopes=body.scopes,
                actor=ask.actor,
                expires_at=expires_at,
                limits=limits,
            )

        return ShownKey(**_fields(await self._office.change(work)), key=key.text)

    async def show(self, ask: Ask) -> KeyView:
        stored = await self._office.look(lambda db: get_key(db, ask.path["id"]))
        return KeyView(**_fields(stored))

    async def change(self, ask: Ask) -> KeyView:
        id, body = ask.path["id"], ask.body
        stored = await self._office.change(
            lambda db: limit_key(
                db, id, lambda limits: changed(limits, body.limits), actor=ask.actor
            )
        )
        return KeyView(**_fields(stored))

    async def rotate(self, ask: Ask) -> ShownKey:
        body: Rotation = ask.body
        key, grace = Key(ask.path["id"], Key.make().secret), body.grace_seconds * 1000
        pepper = self._office.pepper
        stored = await self._office.change(
            lambda db: rotate_key(db, key, pepper, grace=grace, actor=ask.actor)
        )
        return ShownKey(**_fields(stored), key=key.text)

    async def revoke(self, ask: Ask) -> KeyView:
        stored = await self._office.change(
            lambda db: revoke_key(db, ask.path["id"], actor=ask.actor)
        )
        return KeyView(**_fields(stored))


def _fields(stored: StoredKey) -> dict[str, Any]:
    return {
        "id": stored.id,
        "tenant": stored.tenant,
        "scopes": sorted(stored.scopes),
        "state": stored.state(time.time()),
        "limits": limits_view(stored.limits),
        "created_at": stored.created_at // 1000,
        "expires_at": seconds(stored.expires_at),
        "revoked_at": seconds(stored.revoked_at),
        "secrets": [
            SecretView(created_at=s.created_at // 1000, expires_at=seconds(s.expires_at))
            for s in stored.secrets
        ],
    }
