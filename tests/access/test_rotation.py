"""Rotation against the plain idea of it: which secrets of a key let anybody in, at every moment."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.access import keys
from headrace.access.credential import find_credential
from headrace.access.errors import AccessError, NotFound
from headrace.access.key import Key
from headrace.access.keys import create_key, find_key, replace_secret, revoke_key, rotate_key
from headrace.store.database import Database
from headrace.store.url import database_url

PEPPER = b"p" * 32
spans = st.integers(0, 50)


class Rotation(RuleBasedStateMachine):
    """secrets: all that there were, each with the moment at which it ends, or None."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000
        self.secrets: dict[str, int | None] = {}
        self.revoked = False
        self.folder = tempfile.TemporaryDirectory()
        self.database = Database.open(database_url(None, Path(self.folder.name)))
        self.clock = mock.patch.object(keys, "_now", lambda: self.now)
        self.clock.start()

    def teardown(self) -> None:
        self.clock.stop()
        self.database.close()
        self.folder.cleanup()

    @property
    def seconds(self) -> float:
        """Within the present millisecond, because its beginning has no exact float."""
        return (self.now + 0.5) / 1000

    def new(self) -> Key:
        return Key("k", f"secret-{len(self.secrets)}")

    @initialize()
    def create(self) -> None:
        key = self.new()
        with self.database.transaction(write=True) as connection:
            create_key(connection, key, PEPPER, tenant="a", scopes=["admin"], actor="test")
        self.secrets[key.secret] = None

    @rule(grace=spans)
    def rotate(self, grace: int) -> None:
        key = self.new()
        with self.database.transaction(write=True) as connection:
            if self.revoked:
                with pytest.raises(AccessError, match="revoked or expired"):
                    rotate_key(connection, key, PEPPER, grace=grace, actor="test")
                return
            rotate_key(connection, key, PEPPER, grace=grace, actor="test")
        *older, last = self.secrets
        for secret in older:
            self.end(secret, self.now)
        self.end(last, self.now + grace)
        self.secrets[key.secret] = None

    @rule()
    def replace(self) -> None:
        key = self.new()
        with self.database.transaction(write=True) as connection:
            replace_secret(connection, key, PEPPER, actor="test")
        for secret in self.secrets:
            self.end(secret, self.now)
        self.secrets[key.secret] = None
        self.revoked = False

    @rule()
    def revoke(self) -> None:
        with self.database.transaction(write=True) as connection:
            revoke_key(connection, "k", actor="test")
        self.revoked = True

    @rule(span=spans)
    def wait(self, span: int) -> None:
        self.now += span

    @invariant()
    def those_that_live_let_in_and_no_others(self) -> None:
        if not self.secrets:
            return
        live = {s for s, end in self.secrets.items() if end is None or end > self.now}
        assert len(live) <= 2
        with self.database.transaction() as connection:
            for secret in self.secrets:
                digest = Key("k", secret).digest(PEPPER)
                credential = find_credential(connection, "k", digest)
                lets_in = credential is not None and credential.is_valid(self.seconds)
                assert lets_in == (secret in live and not self.revoked)
            stored = find_key(connection, "k")
        assert stored is not None
        assert sum(secret.is_live(self.seconds) for secret in stored.secrets) == len(live)

    def end(self, secret: str, moment: int) -> None:
        end = self.secrets[secret]
        self.secrets[secret] = moment if end is None else min(end, moment)


TestRotation = Rotation.TestCase
TestRotation.settings = settings(max_examples=15, stateful_step_count=12, deadline=None)


@pytest.fixture
def key(database: Database) -> Key:
    made = Key.make()
    with database.transaction(write=True) as connection:
        create_key(connection, made, PEPPER, tenant="acme", scopes=["admin"], actor="test")
    return made


def test_both_secrets_let_in_for_the_grace(database: Database, key: Key) -> None:
    other = Key.make(key.id)
    with database.transaction(write=True) as connection:
        stored = rotate_key(connection, other, PEPPER, grace=60_000, actor="test")
        new, old = (find_credential(connection, key.id, k.digest(PEPPER)) for k in (other, key))
    assert new is not None and old is not None
    assert new.principal == old.principal
    assert (new.expires_at, old.expires_at) == (None, stored.secrets[1].expires_at)
    assert old.expires_at is not None
    assert 0 <= stored.secrets[0].created_at + 60_000 - old.expires_at < 5_000


def test_what_cannot_be_rotated_is_refused(database: Database, key: Key) -> None:
    with database.transaction(write=True) as connection:
        with pytest.raises(NotFound, match="no key nope"):
            rotate_key(connection, Key("nope", "x"), PEPPER, grace=0, actor="test")
        with pytest.raises(AccessError, match="negative"):
            rotate_key(connection, Key(key.id, "x"), PEPPER, grace=-1, actor="test")
        stored = find_key(connection, key.id)
    assert stored is not None
    assert len(stored.secrets) == 1
