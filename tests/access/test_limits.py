"""Limits: what is a limit, and the bound of answers that name none."""

from __future__ import annotations

from uuid import UUID

import pytest

from headrace.access.errors import AccessError
from headrace.access.limits import UNLIMITED, Limits
from headrace.access.principal import Principal
from headrace.access.tenant import Tenant


def holder(tenant: int | None, key: int | None) -> Principal:
    owner = Tenant(id=UUID(int=1), name="t", limits=Limits(default_max_tokens=tenant))
    return Principal(owner, "k", frozenset({"inference"}), Limits(default_max_tokens=key))


@pytest.mark.parametrize(
    ("tenant", "key", "bound"),
    [(None, None, None), (100, None, 100), (None, 50, 50), (100, 50, 50), (50, 100, 50)],
)
def test_the_smaller_bound_of_tenant_and_key_holds(
    tenant: int | None, key: int | None, bound: int | None
) -> None:
    assert holder(tenant, key).default_max_tokens == bound


def test_a_bound_of_no_token_is_refused() -> None:
    with pytest.raises(AccessError, match="default_max_tokens"):
        Limits.of({"default_max_tokens": 0})


def test_what_is_given_makes_the_same_limits_again() -> None:
    limits = UNLIMITED.changed({"default_max_tokens": 7, "budget": 3})
    assert Limits.of(limits.given()) == limits
