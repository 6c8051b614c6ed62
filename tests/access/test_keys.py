"""Keys in the database."""

from __future__ import annotations

import pytest

from headrace.access.errors import AccessError
from headrace.access.key import Key
from headrace.access.keys import (
    StoredKey,
    create_key,
    find_key,
    list_keys,
    revoke_key,
)
from headrace.access.revision import revision
from headrace.store.database import Database

PEPPER = b"p" * 32


def create(database: Database, tenant: str = "acme", **options: object) -> tuple[Key, StoredKey]:
    key = Key.make()
    values = {"scopes": ["inference"], "actor": "test", **options}
    with database.transaction(write=True) as connection:
        return key, create_key(connection, key, PEPPER, tenant=tenant, **values)  # type: ignore[arg-type]


def find(database: Database, id: str) -> StoredKey | None:
    with database.transaction() as connection:
        return find_key(connection, id)


def changes(database: Database) -> int:
    with database.transaction() as connection:
        return revision(connection)


def test_what_was_created_is_found(database: Database) -> None:
    key, stored = create(database, scopes=["admin", "inference"], expires_at=2_000)
    assert find(database, key.id) == stored
    assert stored.tenant == "acme"
    assert stored.scopes == {"admin", "inference"}
    assert [secret.digest for secret in stored.secrets] == [key.digest(PEPPER)]
    assert find(database, "other") is None


def test_keys_of_a_tenant_share_it(database: Database) -> None:
    _, first = create(database)
    _, second = create(database)
    _, other = create(database, tenant="globex")
    assert first.tenant_id == second.tenant_id != other.tenant_id
    with database.transaction() as connection:
        assert list_keys(connection, "acme") == [first, second]
        assert list_keys(connection, "nobody") == []
        assert len(list_keys(connection)) == 3


def test_a_revoked_key_stays_known_and_keeps_its_moment(database: Database) -> None:
    key, stored = create(database)
    assert stored.is_valid(0)
    with database.transaction(write=True) as connection:
        revoked = revoke_key(connection, key.id, actor="test")
    assert revoked.revoked_at is not None
    assert not revoked.is_valid(0)
    with database.transaction(write=True) as connection:
        assert revoke_key(connection, key.id, actor="test") == revoked


def test_a_key_expires_at_its_moment(database: Database) -> None:
    _, stored = create(database, expires_at=2_000)
    assert stored.is_valid(1.999)
    assert not stored.is_valid(2.0)


def test_every_change_raises_the_revision(database: Database) -> None:
    start = changes(database)
    key, _ = create(database)
    made = changes(database)
    assert made > start
    with database.transaction(write=True) as connection:
        revoke_key(connection, key.id, actor="test")
    assert changes(database) == made + 1


def test_a_refused_change_changes_nothing(database: Database) -> None:
    start = changes(database)
    for options in ({"scopes": ["root"]}, {"scopes": []}, {"tenant": ""}, {"tenant": " acme"}):
        with pytest.raises(AccessError):
            create(database, **options)  # type: ignore[arg-type]
    for tenant in ("a" * 201, "a\nb", "\u202eacme"):
        with pytest.raises(AccessError, match="letters, digits"):
            create(database, tenant=tenant)
    with (
        pytest.raises(AccessError, match="there is no key nope"),
        database.transaction(write=True) as connection,
    ):
        revoke_key(connection, "nope", actor="test")
    assert changes(database) == start
    with database.transaction() as connection:
        assert list_keys(connection) == []


def test_an_id_is_taken_once(database: Database) -> None:
    key, _ = create(database)
    with pytest.raises(AccessError, match="already"), database.transaction(write=True) as c:
        create_key(
            c, Key(key.id, "other"), PEPPER, tenant="globex", scopes=["inference"], actor="test"
        )


def test_its_representation_hides_the_digest(database: Database) -> None:
    _, stored = create(database)
    assert "digest" not in repr(stored)
