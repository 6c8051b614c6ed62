"""A key as it was shown, and whom it lets in."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection

from headrace.access.keys import StoredKey, find_keys
from headrace.access.principal import Principal
from headrace.access.tenant import Tenant
from headrace.access.tenants import tenants_of


@dataclass(frozen=True, slots=True)
class Credential:
    """expires_at: the moment, in unix milliseconds, at which it lets nobody in any more."""

    principal: Principal
    expires_at: int | None

    def is_valid(self, now: float) -> bool:
        """Whether it lets anybody in at this moment, in unix seconds."""
        return self.expires_at is None or self.expires_at > now * 1000


@dataclass(frozen=True, slots=True)
class _Match:
    """A stored key, one of whose secrets is right. expires_at: as a credential's."""

    stored: StoredKey
    expires_at: int | None


def find_credential(connection: Connection, id: str, digest: bytes) -> Credential | None:
    """The holder of the key with this id and digest; None if there is none or it is revoked."""
    (found,) = find_credentials(connection, [(id, digest)])
    return found


def find_credentials(
    connection: Connection, wanted: Sequence[tuple[str, bytes]]
) -> list[Credential | None]:
    """As `find_credential` of each id and digest, in the same order, in five queries at most."""
    stored = find_keys(connection, {id for id, _ in wanted})
    matches = [_match(stored.get(id), digest) for id, digest in wanted]
    owners = tenants_of(connection, {match.stored.tenant_id for match in matches if match})
    return [None if match is None else _credential(match, owners) for match in matches]


def _match(stored: StoredKey | None, digest: bytes) -> _Match | None:
    if stored is None or stored.revoked_at is not None:
        return None
    for secret in stored.secrets:
        if hmac.compare_digest(secret.digest, digest):
            ends = [end for end in (stored.expires_at, secret.expires_at) if end is not None]
            return _Match(stored, min(ends, default=None))
    return None


def _credential(match: _Match, owners: dict[UUID, Tenant]) -> Credential:
    stored = match.stored
    principal = Principal(owners[stored.tenant_id], stored.id, stored.scopes, stored.limits)
    return Credential(principal, match.expires_at)
