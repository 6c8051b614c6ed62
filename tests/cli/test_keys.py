"""`headrace keys` as processes."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headrace.access.authenticator import Authenticator
from headrace.access.changes import Changes
from headrace.access.errors import InvalidKey
from headrace.access.pepper import open_pepper
from headrace.access.tenants import create_tenant
from headrace.store.database import Database
from headrace.store.files import make_pepper
from headrace.store.lock import only_service
from headrace.store.url import database_url

from .conftest import Headrace, complaint


@pytest.fixture(autouse=True)
def tenants(data_dir: Path) -> None:
    """acme and globex."""
    database = Database.open(database_url(None, data_dir))
    with database.transaction(write=True) as connection:
        for name in ("acme", "globex"):
            create_tenant(connection, name, actor="test")
    open_pepper(database, data_dir)
    database.close()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / ".local/share/headrace"


def content(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


async def test_a_key_is_made_works_is_listed_and_revoked(
    headrace: Headrace, data_dir: Path
) -> None:
    made = json.loads(headrace("keys", "create", "--tenant", "acme", "--json").stdout)
    assert made["key"].startswith(f"hr-{made['id']}_")
    assert (made["tenant"], made["scopes"], made["expires"]) == ("acme", ["inference"], None)

    database = Database.open(database_url(None, data_dir))
    changes = Changes(database)
    authenticator = Authenticator(database, make_pepper(data_dir), changes)
    await changes.start()
    principal = await authenticator.authenticate(made["key"])
    assert (principal.tenant.name, principal.key_id) == ("acme", made["id"])

    (listed,) = json.loads(headrace("keys", "list", "--json").stdout)
    assert (listed["id"], listed["state"], listed["revoked"]) == (made["id"], "valid", None)
    assert "key" not in listed

    revoked = json.loads(headrace("keys", "revoke", made["id"], "--json").stdout)
    assert revoked["state"] == "revoked"
    await changes.refresh()
    with pytest.raises(InvalidKey):
        await authenticator.authenticate(made["key"])
    await changes.stop()
    database.close()

    stored = content(data_dir)
    assert made["id"].encode() in stored
    assert made["key"].removeprefix(f"hr-{made['id']}_").encode() not in stored


def test_scopes_and_an_end_can_be_given(headrace: Headrace) -> None:
    flags = ["--scope", "admin", "--scope", "inference", "--expires", "30d"]
    made = json.loads(headrace("keys", "create", "--tenant", "acme", *flags, "--json").stdout)
    assert made["scopes"] == ["admin", "inference"]
    left = datetime.fromisoformat(made["expires"]) - datetime.now(UTC)
    assert timedelta(days=29) < left <= timedelta(days=30)


def test_for_people_the_key_is_on_stdout_with_a_warning_beside_it(headrace: Headrace) -> None:
    done = headrace("keys", "create", "--tenant", "acme")
    assert "hr-" in done.stdout
    assert "cannot be shown again" in done.stderr
    table = headrace("keys", "list")
    assert table.stdout.split()[:2] == ["ID", "TENANT"]
    assert "hr-" not in table.stdout


def test_a_list_can_be_one_tenants(headrace: Headrace) -> None:
    for tenant in ("acme", "globex"):
        headrace("keys", "create", "--tenant", tenant)
    rows = json.loads(headrace("keys", "list", "--tenant", "globex", "--json").stdout)
    assert [row["tenant"] for row in rows] == ["globex"]
    assert json.loads(headrace("keys", "list", "--tenant", "nobody", "--json").stdout) == []


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["create", "--tenant", "acme", "--scope", "root"], "unknown scope 'root'"),
        (["create", "--tenant", "nobody"], "there is no tenant 'nobody'"),
        (["create", "--tenant", "acme", "--expires", "1999-01-01"], "in the past"),
        (["create", "--tenant", "acme", "--expires", "soon"], "neither a span"),
        (["revoke", "nope"], "there is no key nope"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    headrace: Headrace, arguments: list[str], fault: str
) -> None:
    assert fault in complaint(headrace("keys", *arguments))


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("mysql://u:hidden@host/name", "use sqlite or postgresql"),
        ("sqlite:////proc/nowhere/headrace.db", "nowhere"),
    ],
)
def test_an_unusable_database_is_one_line(headrace: Headrace, url: str, fault: str) -> None:
    line = complaint(headrace("keys", "list", HEADRACE_DATABASE_URL=url))
    assert fault in line
    assert "hidden" not in line


def test_a_lost_pepper_is_replaced_when_that_is_meant_and_no_service_runs(
    headrace: Headrace, data_dir: Path
) -> None:
    made = json.loads(headrace("keys", "create", "--tenant", "acme", "--json").stdout)
    (data_dir / "pepper").unlink()
    assert "keys replace-pepper" in complaint(headrace("keys", "rotate", made["id"]))
    assert "add --yes" in complaint(headrace("keys", "replace-pepper"))
    with only_service(data_dir, database_url(None, data_dir)):
        line = complaint(headrace("keys", "replace-pepper", "--yes"))
        assert f"process {os.getpid()}, since" in line
    assert not (data_dir / "pepper").exists()
    assert headrace("keys", "replace-pepper", "--yes").returncode == 0
    (row,) = json.loads(headrace("keys", "list", "--json").stdout)
    assert (row["state"], row["live_secrets"]) == ("valid", 0)
    rotated = json.loads(headrace("keys", "rotate", made["id"], "--json").stdout)
    assert rotated["key"].startswith(f"hr-{made['id']}_")
    (row,) = json.loads(headrace("keys", "list", "--json").stdout)
    assert row["live_secrets"] == 1
