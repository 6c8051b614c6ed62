"""The first key of an installation."""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog
from sqlalchemy import Connection

from headrace.access.credential import find_credential
from headrace.access.errors import AccessError, InvalidKey
from headrace.access.key import Key
from headrace.access.keys import create_key, find_key, list_keys, replace_secret
from headrace.access.principal import SCOPES
from headrace.access.revision import lock_registry
from headrace.store.database import Database

TENANT = "default"
ACTOR = "bootstrap"

log = structlog.get_logger("headrace.access")


def ensure_bootstrap_key(
    database: Database,
    pepper: bytes,
    given: str | None,
    *,
    keep: Callable[[str], object] | None = None,
) -> str | None:
    """Make sure that somebody can get in: the given key, or else one that is made now if the
    tenant "default" has never had any. It may do everything. The text of a key made now is
    returned, to be shown once; it is kept nowhere.

    keep: called with that text before the key is committed. If it raises there is no key.

    A given key whose id is known with other secrets replaces those. One that was revoked or
    rotated away stays so: a restart must not undo that.

    Raises:
        AccessError: the given key is not of the form hr-<id>_<secret>, or its id belongs to
            another tenant.
        DatabaseUnavailable
    """
    with database.transaction(write=True) as connection:
        lock_registry(connection)
        if given is not None:
            _put(connection, _parse(given), pepper)
            return None
        if list_keys(connection, TENANT):
            return None
        key = Key.make()
        create_key(connection, key, pepper, tenant=TENANT, scopes=SCOPES, actor=ACTOR)
        if keep is not None:
            keep(key.text)
        return key.text


def _put(connection: Connection, key: Key, pepper: bytes) -> None:
    stored = find_key(connection, key.id)
    if stored is None:
        create_key(connection, key, pepper, tenant=TENANT, scopes=SCOPES, actor=ACTOR)
    elif stored.tenant != TENANT:
        raise AccessError(f"bootstrap_key has the id of a key of another tenant: {key.id}")
    elif key.digest(pepper) not in [secret.digest for secret in stored.secrets]:
        replace_secret(connection, key, pepper, actor=ACTOR)
    else:
        credential = find_credential(connection, key.id, key.digest(pepper))
        if credential is None or not credential.is_valid(time.time()):
            log.warning("bootstrap_key_has_ended", key_id=key.id)


def _parse(text: str) -> Key:
    try:
        return Key.parse(text)
    except InvalidKey as error:
        raise AccessError(f"bootstrap_key is {error}") from None
