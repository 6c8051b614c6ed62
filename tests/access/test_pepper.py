"""The pepper belongs to its database: a missing or another one is refused by name."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from sqlalchemy import delete

from headrace.access.audit import list_audit
from headrace.access.credential import find_credential
from headrace.access.errors import AccessError
from headrace.access.key import Key
from headrace.access.keys import create_key, list_keys, rotate_key
from headrace.access.pepper import WrongPepper, open_pepper, replace_pepper
from headrace.store.database import Database
from headrace.store.files import make_pepper, pepper_path
from headrace.store.schema import installation


def create(database: Database, pepper: bytes) -> None:
    with database.transaction(write=True) as connection:
        create_key(connection, Key.make(), pepper, tenant="a", scopes=["admin"], actor="test")


def test_the_first_use_makes_one_that_stays(database: Database, tmp_path: Path) -> None:
    first = open_pepper(database, tmp_path / "one")
    assert open_pepper(database, tmp_path / "one") == first


def test_a_missing_pepper_is_named_and_not_made_anew(database: Database, tmp_path: Path) -> None:
    create(database, open_pepper(database, tmp_path))
    path = pepper_path(tmp_path)
    path.unlink()
    with pytest.raises(WrongPepper, match=f"{path} is missing.*restore the file.*replace-pepper"):
        open_pepper(database, tmp_path)
    assert not path.exists()


def test_a_second_edge_without_a_copy_is_refused(database: Database, tmp_path: Path) -> None:
    open_pepper(database, tmp_path / "one")
    with pytest.raises(WrongPepper, match="is missing"):
        open_pepper(database, tmp_path / "two")


def test_another_pepper_is_refused(database: Database, tmp_path: Path) -> None:
    open_pepper(database, tmp_path / "one")
    make_pepper(tmp_path / "two")
    with pytest.raises(WrongPepper, match="two/pepper is not the pepper"):
        open_pepper(database, tmp_path / "two")


def test_a_database_of_an_older_release_takes_the_pepper_it_is_used_with(
    database: Database, tmp_path: Path
) -> None:
    """It has keys, and no check value."""
    pepper = make_pepper(tmp_path / "one")
    create(database, pepper)
    with database.transaction(write=True) as connection:
        connection.execute(delete(installation))
    with pytest.raises(WrongPepper, match="is missing"):
        open_pepper(database, tmp_path / "new")
    assert open_pepper(database, tmp_path / "one") == pepper
    make_pepper(tmp_path / "two")
    with pytest.raises(WrongPepper):
        open_pepper(database, tmp_path / "two")


def test_a_lost_pepper_is_replaced_and_a_key_gets_a_new_secret(
    database: Database, tmp_path: Path
) -> None:
    first = open_pepper(database, tmp_path)
    old = Key.make()
    with database.transaction(write=True) as connection:
        create_key(connection, old, first, tenant="a", scopes=["admin"], actor="test")
    pepper_path(tmp_path).unlink()
    replace_pepper(database, tmp_path, actor="test")
    second = open_pepper(database, tmp_path)
    assert second != first
    new = Key.make(old.id)
    now = time.time()
    with database.transaction(write=True) as connection:
        (stored,) = list_keys(connection)
        assert not any(secret.is_live(now) for secret in stored.secrets)
        rotate_key(connection, new, second, grace=0, actor="test")
        assert find_credential(connection, old.id, old.digest(second)) is None
        found = find_credential(connection, new.id, new.digest(second))
        assert found is not None
        assert found.is_valid(time.time())
        assert [entry.action for entry in list_audit(connection)][:2] == [
            "key.rotate",
            "pepper.replace",
        ]


def test_another_pepper_in_its_place_counts_after_a_replacement(
    database: Database, tmp_path: Path
) -> None:
    create(database, open_pepper(database, tmp_path / "one"))
    pepper = make_pepper(tmp_path / "two")
    replace_pepper(database, tmp_path / "two", actor="test")
    assert open_pepper(database, tmp_path / "two") == pepper
    with pytest.raises(WrongPepper):
        open_pepper(database, tmp_path / "one")


def test_the_right_pepper_is_not_replaced(database: Database, tmp_path: Path) -> None:
    pepper = open_pepper(database, tmp_path)
    key = Key.make()
    with database.transaction(write=True) as connection:
        create_key(connection, key, pepper, tenant="a", scopes=["admin"], actor="test")
    with pytest.raises(AccessError, match="is the pepper of this database"):
        replace_pepper(database, tmp_path, actor="test")
    with database.transaction() as connection:
        found = find_credential(connection, key.id, key.digest(pepper))
    assert found is not None
    assert found.is_valid(time.time())


def test_the_check_value_is_not_the_pepper(database: Database, tmp_path: Path) -> None:
    pepper = open_pepper(database, tmp_path)
    with database.transaction() as connection:
        (row,) = connection.execute(installation.select()).all()
    assert pepper not in row.value
    assert pepper.hex().encode() not in row.value
