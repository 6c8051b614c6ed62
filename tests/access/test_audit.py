"""What every change leaves behind: a higher revision and an entry in the audit log."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import Connection, select

from headrace.access.aliases import list_aliases, remove_alias, set_alias
from headrace.access.audit import list_audit
from headrace.access.errors import AccessError, NotFound
from headrace.access.key import Key
from headrace.access.keys import create_key, limit_key, replace_secret, revoke_key, rotate_key
from headrace.access.pins import list_pins, remove_pin, set_pin
from headrace.access.price import Rates
from headrace.access.prices import set_price
from headrace.access.revision import revision
from headrace.access.tenants import change_tenant, create_tenant
from headrace.store.database import Database
from headrace.store.schema import audit

PEPPER = b"p" * 32
KEY = Key("k", secrets.token_urlsafe(32))
RATES = Rates(input=1, cached_input=1, output=1)
Change = Callable[[Connection], object]

CHANGES: list[tuple[str, Change]] = [
    ("tenant.create", lambda c: create_tenant(c, "acme", actor="test")),
    (
        "tenant.update",
        lambda c: change_tenant(c, "acme", lambda t: replace(t, weight=2), actor="test"),
    ),
    (
        "key.create",
        lambda c: create_key(c, KEY, PEPPER, tenant="acme", scopes=["inference"], actor="test"),
    ),
    (
        "key.update",
        lambda c: limit_key(c, "k", lambda old: replace(old, budget=5), actor="test"),
    ),
    ("key.rotate", lambda c: rotate_key(c, Key("k", "new"), PEPPER, grace=9, actor="test")),
    ("key.replace", lambda c: replace_secret(c, Key("k", "newer"), PEPPER, actor="test")),
    ("key.revoke", lambda c: revoke_key(c, "k", actor="test")),
    ("alias.set", lambda c: set_alias(c, "chat", "a", actor="test")),
    ("alias.set", lambda c: set_alias(c, "chat", "b", actor="test")),
    ("alias.set", lambda c: set_alias(c, "chat", "a@1", tenant="acme", actor="test")),
    ("alias.remove", lambda c: remove_alias(c, "chat", actor="test")),
    ("pin.set", lambda c: set_pin(c, "acme", "a", "v1", actor="test")),
    ("pin.set", lambda c: set_pin(c, "acme", "a", "v2", actor="test")),
    ("pin.remove", lambda c: remove_pin(c, "acme", "a", actor="test")),
    ("price.set", lambda c: set_price(c, "a", RATES, actor="test")),
    ("price.set", lambda c: set_price(c, "a", RATES, actor="test")),
]


def test_every_change_is_written_down_and_raises_the_revision(database: Database) -> None:
    done: list[str] = []
    for action, change in CHANGES:
        with database.transaction(write=True) as connection:
            before = revision(connection)
            change(connection)
            assert revision(connection) > before
        done.append(action)
        with database.transaction() as connection:
            entries = list_audit(connection)
        assert [entry.action for entry in entries] == done[::-1]
        assert entries[0].actor == "test"
        assert entries[0].before != entries[0].after
    removals = [entry for entry in entries if entry.action.endswith("remove")]
    assert [entry.after for entry in removals] == [None, None]
    creations = [entry for entry in entries if entry.action.endswith("create")]
    assert [entry.before for entry in creations] == [None, None]


def test_neither_secrets_nor_digests_are_written_down(database: Database) -> None:
    for _, change in CHANGES:
        with database.transaction(write=True) as connection:
            change(connection)
    with database.transaction() as connection:
        written = str(connection.execute(select(audit)).all())
    for secret in (KEY.secret, "newer", PEPPER.decode(), KEY.digest(PEPPER).hex(), "digest"):
        assert secret not in written


def test_what_changes_nothing_leaves_no_entry(sqlite: Database) -> None:
    for _, change in CHANGES:
        with sqlite.transaction(write=True) as connection:
            change(connection)
    with sqlite.transaction(write=True) as connection:
        revoke_key(connection, "k", actor="test")
        change_tenant(connection, "acme", lambda tenant: tenant, actor="test")
        set_alias(connection, "chat", "a@1", tenant="acme", actor="test")
        assert len(list_audit(connection)) == len(CHANGES)


def test_a_change_that_is_undone_leaves_no_entry(database: Database) -> None:
    with pytest.raises(ZeroDivisionError), database.transaction(write=True) as connection:
        create_tenant(connection, "acme", actor="test")
        raise ZeroDivisionError
    with database.transaction() as connection:
        assert list_audit(connection) == []


def test_entries_can_be_chosen(sqlite: Database) -> None:
    for _, change in CHANGES:
        with sqlite.transaction(write=True) as connection:
            change(connection)
    with sqlite.transaction() as connection:
        newest, *_ = everything = list_audit(connection)
        assert list_audit(connection, limit=1) == [newest]
        assert {entry.subject for entry in list_audit(connection, subject="k")} == {"k"}
        assert list_audit(connection, since=newest.moment + 1) == []
        assert list_audit(connection, since=everything[-1].moment) == everything


def test_names_and_pins_are_listed_until_they_are_removed(database: Database) -> None:
    with database.transaction(write=True) as connection:
        for name in ("globex", "acme"):
            create_tenant(connection, name, actor="test")
            set_pin(connection, name, "a", "v1", actor="test")
            set_alias(connection, "chat", "a", tenant=name, actor="test")
        set_alias(connection, "chat", "b", actor="test")
        set_alias(connection, "chat", "c", actor="test")
        owners = [(alias.tenant, alias.target) for alias in list_aliases(connection)]
        assert owners == [(None, "c"), ("acme", "a"), ("globex", "a")]
        assert [pin.tenant for pin in list_pins(connection)] == ["acme", "globex"]
        remove_alias(connection, "chat", tenant="acme", actor="test")
        remove_pin(connection, "acme", "a", actor="test")
        assert list_aliases(connection, "acme") == list_pins(connection, "acme") == []
        assert len(list_aliases(connection, "globex")) == len(list_pins(connection, "globex")) == 1


def test_unknown_names_and_unusable_ones_are_refused(sqlite: Database) -> None:
    with sqlite.transaction(write=True) as connection:
        create_tenant(connection, "acme", actor="test")
        with pytest.raises(NotFound, match="no tenant 'nobody'"):
            set_alias(connection, "chat", "a", tenant="nobody", actor="test")
        with pytest.raises(NotFound, match="no alias 'chat' of everybody"):
            remove_alias(connection, "chat", actor="test")
        with pytest.raises(NotFound, match="acme has no pin for 'a'"):
            remove_pin(connection, "acme", "a", actor="test")
        for name, target in [("a b", "a"), ("a@1", "a"), ("", "a"), ("chat", "a@"), ("a", "a")]:
            with pytest.raises(AccessError):
                set_alias(connection, name, target, actor="test")
        for model, version in [("a@1", "v"), ("a", "v 1"), ("a", "")]:
            with pytest.raises(AccessError):
                set_pin(connection, "acme", model, version, actor="test")
        assert list_aliases(connection) == list_pins(connection) == []
