"""Tenants in the database."""

from __future__ import annotations

from dataclasses import asdict, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.access.aliases import set_alias
from headrace.access.errors import AccessError, AlreadyExists, NotFound
from headrace.access.limits import LARGEST, UNLIMITED, Limits
from headrace.access.pins import set_pin
from headrace.access.tenant import Tenant
from headrace.access.tenants import (
    change_tenant,
    create_tenant,
    ensure_tenant,
    find_tenant,
    get_tenant,
    list_tenants,
)
from headrace.store.database import Database

COUNTS = [field.name for field in fields(Limits) if field.name != "budget_period"]
counts = st.none() | st.integers(1, LARGEST)
limits = st.builds(
    Limits, budget_period=st.sampled_from(["day", "month"]), **dict.fromkeys(COUNTS, counts)
)


def create(database: Database, name: str = "acme", **options: object) -> Tenant:
    with database.transaction(write=True) as connection:
        return create_tenant(connection, name, actor="test", **options)  # type: ignore[arg-type]


def find(database: Database, name: str = "acme") -> Tenant | None:
    with database.transaction() as connection:
        return find_tenant(connection, name)


def change(database: Database, **values: object) -> Tenant:
    with database.transaction(write=True) as connection:
        return change_tenant(
            connection, "acme", lambda tenant: replace(tenant, **values), actor="test"
        )


def test_what_was_created_is_found_and_listed(database: Database) -> None:
    made = create(
        database,
        service_class="interactive",
        weight=3,
        limits=Limits(requests_per_minute=60, budget=5 * 10**9, budget_period="day"),
        models=frozenset({"a", "b"}),
    )
    usual = create(database, "globex")
    assert find(database) == made
    assert (usual.service_class, usual.weight, usual.enabled) == ("default", 1, True)
    assert usual.limits == UNLIMITED
    assert usual.models is None
    with database.transaction() as connection:
        assert list_tenants(connection) == [made, usual]


def test_a_change_is_kept_and_what_it_leaves_out_stays(database: Database) -> None:
    made = create(database, weight=3, models=frozenset({"a"}))
    assert change(database, enabled=False) == replace(made, enabled=False)
    assert change(database, models=None, weight=1) == find(database)
    assert find(database) == replace(made, enabled=False, models=None, weight=1)


def test_it_knows_its_names_and_everybodys_and_its_pins(database: Database) -> None:
    create(database)
    create(database, "globex")
    with database.transaction(write=True) as connection:
        set_alias(connection, "chat", "a", actor="test")
        set_alias(connection, "fast", "a", actor="test")
        set_alias(connection, "chat", "b@1", tenant="acme", actor="test")
        set_pin(connection, "acme", "a", "v1", actor="test")
        acme, globex = list_tenants(connection)
    assert (acme.aliases, acme.pins) == ({"chat": "b@1", "fast": "a"}, {"a": "v1"})
    assert (globex.aliases, globex.pins) == ({"chat": "a", "fast": "a"}, {})


def test_a_name_is_taken_once_and_must_be_known(database: Database) -> None:
    made = create(database)
    with pytest.raises(AlreadyExists, match="'acme' already"):
        create(database)
    with database.transaction(write=True) as connection:
        assert ensure_tenant(connection, "acme", actor="test") == made
        assert ensure_tenant(connection, "new", actor="test").name == "new"
        with pytest.raises(NotFound, match="no tenant 'nobody'"):
            get_tenant(connection, "nobody")


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"service_class": "vip"}, "no class 'vip'"),
        ({"weight": 0}, "weight"),
        ({"weight": 1001}, "weight"),
        ({"models": frozenset({"a b"})}, "model's name"),
        ({"models": frozenset({"a@1"})}, "model's name"),
        ({"limits": Limits(requests_per_minute=0)}, "requests_per_minute: expected int >= 1"),
        ({"limits": Limits(budget=-1)}, "budget: expected int >= 0"),
        ({"limits": Limits(budget=LARGEST + 1)}, "budget: expected int <= "),
    ],
)
def test_unusable_values_are_refused_and_change_nothing(
    sqlite: Database, values: dict[str, object], complaint: str
) -> None:
    made = create(sqlite)
    with pytest.raises(AccessError, match=complaint):
        create(sqlite, "other", **values)
    with pytest.raises(AccessError, match=complaint):
        change(sqlite, **values)
    assert find(sqlite) == made
    assert find(sqlite, "other") is None


@given(limits)
def test_limits_are_what_was_given_of_them(some: Limits) -> None:
    assert Limits.of(some.given()) == some == some.checked()
    assert Limits.of(asdict(some)) == some


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"request_per_minute": 1}, "unknown limit 'request_per_minute'"),
        ({"requests_per_minute": "1"}, "requests_per_minute: expected int"),
        ({"requests_per_minute": True}, "requests_per_minute: expected int"),
        ({"requests_per_minute": 1.5}, "requests_per_minute: expected int"),
        ({"budget_period": "week"}, "budget_period: invalid enum value 'week'"),
    ],
)
def test_other_limits_are_refused(values: dict[str, object], complaint: str) -> None:
    with pytest.raises(AccessError, match=complaint):
        Limits.of(values)
