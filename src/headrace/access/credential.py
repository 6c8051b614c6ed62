"""A key as it was shown, and whom it lets in."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from sqlalchemy import Connection

from headrace.access.keys import find_key
from headrace.access.principal import Principal
from headrace.access.tenants import tenant_of


@dataclass(frozen=True, slots=True)
class Credential:
    """expires_at: the moment, in unix milliseconds, at which it lets nobody in any more."""

    principal: Principal
    expires_at: int | None

    def is_valid(self, now: float) -> bool:
        """Whether it lets anybody in at this moment, in unix seconds."""
        return self.expires_at is None or self.expires_at > now * 1000


def find_credential(connection: Connection, id: str, digest: bytes) -> Credential | None:
    """The holder of the key with this id and digest; None if there is none or it is revoked."""
    stored = find_key(connection, id)
    if stored is None or stored.revoked_at is not None:
        return None
    for secret in stored.secrets:
        if hmac.compare_digest(secret.digest, digest):
            ends = [end for end in (stored.expires_at, secret.expires_at) if end is not None]
            tenant = tenant_of(connection, stored.tenant_id)
            principal = Principal(tenant, stored.id, stored.scopes, stored.limits)
            return Credential(principal, min(ends, default=None))
    return None
