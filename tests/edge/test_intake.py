from __future__ import annotations

import pytest

from headrace.api.openai.errors import ApiError
from headrace.edge.intake import SMALL_BODY, Claim, Intake


def claims(intake: Intake, tenant: str, size: int) -> int:
    """How many bodies of a size a tenant can have under way."""
    held = 0
    while True:
        try:
            Claim(intake, tenant).grow(size)
        except ApiError:
            return held
        held += 1


def test_a_tenant_alone_holds_half_and_leaves_half() -> None:
    intake = Intake(1_000_000)
    assert claims(intake, "a", 10_000) == 50
    assert claims(intake, "b", 10_000) == 25


def test_five_tenants_that_hold_all_they_can_leave_room_for_a_sixth() -> None:
    intake = Intake(1_000_000)
    for n in range(5):
        claims(intake, f"flood {n}", 5_000)
    assert intake.held <= 1_000_000
    assert claims(intake, "late", 5_000) > 0


def test_too_much_is_a_429_for_who_holds_some_and_a_503_else() -> None:
    intake = Intake(100_000)
    Claim(intake, "a").grow(40_000)
    with pytest.raises(ApiError, match="40000 bytes of bodies") as own:
        Claim(intake, "a").grow(20_000)
    with pytest.raises(ApiError, match="bodies_under_way") as others:
        Claim(intake, "b").grow(40_000)
    assert (own.value.status, others.value.status) == (429, 503)
    assert own.value.headers["retry-after"] == others.value.headers["retry-after"] == "1"


def test_small_bodies_count_nothing() -> None:
    intake = Intake(10_000)
    for _ in range(100):
        Claim(intake, "a").grow(SMALL_BODY)
    assert intake.held == 0


def test_a_body_without_a_length_counts_as_it_grows_and_is_given_back_once() -> None:
    intake = Intake(1_000_000)
    claim = Claim(intake, "a")
    for size in (1_000, 5_000, 9_000):
        claim.grow(size)
    assert intake.held == intake.held_by("a") == 9_000
    claim.release()
    claim.release()
    assert intake.held == intake.held_by("a") == 0
