"""Databases of former releases: what they hold is there after the migration."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from alembic import command
from alembic.config import Config
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import URL, Connection, MetaData, func, insert, select, text, update

from headrace.access.credential import find_credential
from headrace.access.keys import list_keys
from headrace.access.limits import UNLIMITED
from headrace.access.revision import revision
from headrace.access.tenants import list_tenants
from headrace.ledger.usage import sum_usage
from headrace.store.database import Database
from headrace.store.errors import StoreError
from headrace.store.migrate import _SCRIPTS
from headrace.store.schema import charges, metadata

moments = st.integers(0, 2**62)
names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1)
COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")


@st.composite
def history(draw: st.DrawFn) -> dict[str, list[dict[str, Any]]]:
    """Rows of a database at revision 0001."""
    owners = draw(
        st.lists(
            st.fixed_dictionaries({"id": st.uuids(), "name": names, "created_at": moments}),
            max_size=4,
            unique_by=(lambda row: row["id"], lambda row: row["name"]),
        )
    )
    of_tenant = {"tenant_id": st.sampled_from([row["id"] for row in owners] or [UUID(int=0)])}
    ids = st.text("abcdefgh", min_size=1, max_size=9)
    key = {
        "id": ids,
        **of_tenant,
        "digest": st.binary(min_size=32, max_size=32),
        "scopes": st.sampled_from(["admin", "inference", "admin inference"]),
        "created_at": moments,
        "expires_at": st.none() | moments,
        "revoked_at": st.none() | moments,
    }
    held = st.lists(st.fixed_dictionaries(key), max_size=5, unique_by=lambda row: row["id"])
    keys = draw(held) if owners else []
    charge = {
        "id": st.uuids(),
        "edge": st.uuids(),
        "key": st.sampled_from(keys or [{}]),
        "opened_at": moments,
        "ending": st.sampled_from([None, "stop", "interrupted"]),
        **dict.fromkeys(COUNTS, st.integers(0, 2**31 - 1)),
    }
    books = st.lists(st.fixed_dictionaries(charge), max_size=5, unique_by=lambda row: row["id"])
    written = [
        row
        | {"key_id": row["key"]["id"], "tenant_id": row.pop("key")["tenant_id"]}
        | {"request_id": "req", "endpoint": "/v1/completions", "stream": False}
        | {"model": "m", "model_version": "v", "closed_at": row["ending"] and row["opened_at"]}
        for row in (draw(books) if keys else [])
    ]
    return {"tenants": owners, "keys": keys, "charges": written}


def first_release(url: URL, rows: dict[str, list[dict[str, Any]]], changes: int = 0) -> None:
    """Make the database what the first release left behind, whatever it was."""
    database = Database.connect(url)
    with database.transaction(write=True) as connection:
        _clear(connection)
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(_SCRIPTS))
        command.upgrade(config, "0001")
        former = MetaData()
        former.reflect(connection)
        for name in ("tenants", "keys", "charges"):
            table = former.tables[name]
            for row in rows[name]:
                # As text, as the first release wrote them: reflection knows no UUID of SQLite.
                plain = connection.dialect.name == "sqlite"
                values = {k: v.hex if plain and isinstance(v, UUID) else v for k, v in row.items()}
                connection.execute(insert(table).values(values))
        connection.execute(update(former.tables["counters"]).values(value=changes))
    database.close()


def _clear(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
        return
    for table in reversed(metadata.sorted_tables):
        connection.execute(text(f'DROP TABLE IF EXISTS "{table.name}"'))
    connection.execute(text("DROP TABLE IF EXISTS alembic_version"))


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=history(), changes=st.integers(0, 2**40))
def test_what_the_first_release_knew_is_known(
    empty_url: URL, rows: dict[str, list[dict[str, Any]]], changes: int
) -> None:
    first_release(empty_url, rows, changes)
    database = Database.open(empty_url)
    with database.transaction() as connection:
        assert revision(connection) == changes
        found = {tenant.id: tenant for tenant in list_tenants(connection)}
        assert {id: tenant.name for id, tenant in found.items()} == {
            row["id"]: row["name"] for row in rows["tenants"]
        }
        assert all(tenant.enabled and tenant.limits == UNLIMITED for tenant in found.values())
        kept = {key.id: key for key in list_keys(connection)}
        assert set(kept) == {row["id"] for row in rows["keys"]}
        for row in rows["keys"]:
            stored = kept[row["id"]]
            for name in ("tenant_id", "created_at", "expires_at", "revoked_at"):
                assert getattr(stored, name) == row[name]
            assert stored.scopes == set(row["scopes"].split())
            (secret,) = stored.secrets
            assert (secret.digest, secret.expires_at) == (row["digest"], None)
            credential = find_credential(connection, stored.id, row["digest"])
            assert (credential is None) == (row["revoked_at"] is not None)
        written = {row["id"]: row for row in rows["charges"]}
        for charge in connection.execute(select(charges)):
            assert charge._asdict() == written.pop(charge.id) | {"price_id": None, "cost": None}
        assert not written
        used = sum_usage(connection, by="model")
        assert sum(row.requests for row in used) == len(rows["charges"])
    database.close()


def test_an_older_database_that_may_not_be_migrated_is_left_as_it_is(empty_url: URL) -> None:
    first_release(empty_url, {"tenants": [], "keys": [], "charges": []})
    with pytest.raises(StoreError, match=r"at revision 0001.*run headrace migrate"):
        Database.open(empty_url, may_migrate=False)
    database = Database.connect(empty_url)
    with database.transaction() as connection:
        query = select(func.count()).select_from(text("keys")).where(text("digest IS NULL"))
        assert connection.scalar(query) == 0
    database.close()
    Database.open(empty_url).close()
    Database.open(empty_url, may_migrate=False).close()
