"""Which limits hold for whom, and until when."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from headrace.access.limits import Limits, Period
from headrace.access.principal import Principal
from headrace.access.tenant import Tenant
from headrace.quotas.inforce import limits_in_force
from headrace.quotas.period import span_of

NEW_YEAR = datetime(2027, 1, 1, tzinfo=UTC).timestamp()


def principal(tenant: Limits, key: Limits) -> Principal:
    holder = Tenant(id=UUID(int=1), name="acme", limits=tenant)
    return Principal(holder, "k1", frozenset({"inference"}), key)


def test_those_of_tenant_and_key_each_with_its_counter() -> None:
    both = Limits(requests_per_minute=2, long_concurrent_requests=1)
    found = limits_in_force(principal(both, both), False, NEW_YEAR)
    assert [(each.counter, each.whose) for each in found] == [
        ("t.requests_per_minute", "acme"),
        ("k.k1.requests_per_minute", "k1"),
    ]


def test_those_of_long_requests_only_for_them_and_beside_the_others() -> None:
    limits = Limits(requests_per_minute=2, long_requests_per_minute=1)
    found = limits_in_force(principal(limits, Limits()), True, NEW_YEAR)
    assert [each.name for each in found] == ["requests_per_minute", "long_requests_per_minute"]


def test_none_for_nobody() -> None:
    assert limits_in_force(principal(Limits(), Limits()), True, NEW_YEAR) == ()


@pytest.mark.parametrize(
    ("period", "before", "after"),
    [("day", "2026-12-31", "2027-01-01"), ("month", "2026-12", "2027-01")],
)
def test_a_budget_begins_anew_at_midnight(period: Period, before: str, after: str) -> None:
    limits = principal(Limits(budget=5, budget_period=period), Limits())
    (old,) = limits_in_force(limits, False, NEW_YEAR - 0.001)
    (new,) = limits_in_force(limits, False, NEW_YEAR)
    assert old.counter == f"t.budget.{before}"
    assert old.ends == NEW_YEAR * 1000
    assert new.counter == f"t.budget.{after}"


@pytest.mark.parametrize("month", range(1, 13))
def test_months_have_their_own_lengths(month: int) -> None:
    moment = datetime(2028, month, 17, 5, 30, tzinfo=UTC).timestamp()
    span = span_of("month", moment)
    assert span_of("month", span.begins / 1000) == span
    assert span_of("month", span.ends / 1000 - 0.001) == span
    assert span_of("month", span.ends / 1000).begins == span.ends
