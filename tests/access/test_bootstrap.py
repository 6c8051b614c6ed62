"""The first key."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.access.bootstrap import ensure_bootstrap_key
from headrace.access.errors import AccessError
from headrace.access.key import Key
from headrace.access.keys import (
    create_key,
    find_key,
    list_keys,
    revoke_key,
)
from headrace.access.principal import SCOPES
from headrace.access.revision import lock_registry
from headrace.store.database import Database

PEPPER = b"p" * 32


def digests(database: Database) -> list[bytes]:
    with database.transaction() as connection:
        stored = list_keys(connection)
    assert all(key.tenant == "default" for key in stored)
    assert all(key.scopes == {"admin", "inference"} for key in stored)
    valid = [key for key in stored if key.is_valid(0)]
    return [s.digest for key in valid for s in key.secrets if s.is_live(time.time())]


def test_the_first_start_makes_a_key_and_the_second_does_not(database: Database) -> None:
    text = ensure_bootstrap_key(database, PEPPER, None)
    assert text is not None
    assert ensure_bootstrap_key(database, PEPPER, None) is None
    assert digests(database) == [Key.parse(text).digest(PEPPER)]


def test_a_revoked_first_key_is_not_made_again(database: Database) -> None:
    text = ensure_bootstrap_key(database, PEPPER, None)
    assert text is not None
    with database.transaction(write=True) as connection:
        revoke_key(connection, Key.parse(text).id, actor="test")
    assert ensure_bootstrap_key(database, PEPPER, None) is None


def test_of_two_starts_the_second_waits_for_the_first(database: Database) -> None:
    with ThreadPoolExecutor(1) as thread:
        with database.transaction(write=True) as connection:
            lock_registry(connection)
            second = thread.submit(ensure_bootstrap_key, database, PEPPER, None)
            with pytest.raises(TimeoutError):
                second.result(0.1)
            create_key(
                connection, Key("a", "b"), PEPPER, tenant="default", scopes=SCOPES, actor="test"
            )
        assert second.result() is None
    assert digests(database) == [Key("a", "b").digest(PEPPER)]


@pytest.mark.parametrize("text", ["hr-a_b", f"hr-{'i' * 200}_{'s' * 200}", "hr-ID.9~_a_b_c"])
def test_a_given_key_is_valid_however_often_it_is_given(database: Database, text: str) -> None:
    for _ in range(3):
        assert ensure_bootstrap_key(database, PEPPER, text) is None
    assert digests(database) == [Key.parse(text).digest(PEPPER)]
    assert ensure_bootstrap_key(database, PEPPER, None) is None


def test_another_secret_under_its_id_replaces_it(database: Database) -> None:
    ensure_bootstrap_key(database, PEPPER, "hr-a_old")
    with database.transaction(write=True) as connection:
        revoke_key(connection, "a", actor="test")
    ensure_bootstrap_key(database, PEPPER, "hr-a_new")
    assert digests(database) == [Key("a", "new").digest(PEPPER)]
    ensure_bootstrap_key(database, PEPPER, "hr-a_old")
    assert digests(database) == [Key("a", "new").digest(PEPPER)]


def test_a_given_key_that_was_revoked_stays_revoked(database: Database) -> None:
    ensure_bootstrap_key(database, PEPPER, "hr-a_b")
    with database.transaction(write=True) as connection:
        revoke_key(connection, "a", actor="test")
    ensure_bootstrap_key(database, PEPPER, "hr-a_b")
    assert digests(database) == []


def test_it_cannot_take_over_a_key_of_another_tenant(database: Database) -> None:
    with database.transaction(write=True) as connection:
        create_key(
            connection, Key("a", "b"), PEPPER, tenant="acme", scopes=["inference"], actor="test"
        )
    for text in ("hr-a_b", "hr-a_c"):
        with pytest.raises(AccessError, match="another tenant"):
            ensure_bootstrap_key(database, PEPPER, text)
    with database.transaction() as connection:
        stored = find_key(connection, "a")
    assert stored is not None
    assert stored.scopes == {"inference"}


def test_a_malformed_one_is_refused_and_not_quoted(database: Database) -> None:
    with pytest.raises(AccessError, match="bootstrap_key is not of the form") as caught:
        ensure_bootstrap_key(database, PEPPER, "my-secret")
    assert "my-secret" not in str(caught.value)
