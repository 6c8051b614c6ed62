"""Identifiers by RFC 9562."""

from __future__ import annotations

from uuid import RFC_4122

from hypothesis import given
from hypothesis import strategies as st

from headrace.store.ids import uuid7

NANOSECONDS = st.integers(0, (1 << 48) * 1_000_000 - 1)


@given(NANOSECONDS)
def test_it_is_a_version_7_that_begins_with_its_millisecond(now: int) -> None:
    id = uuid7(now)
    assert (id.version, id.variant) == (7, RFC_4122)
    assert id.int >> 80 == now // 1_000_000


@given(NANOSECONDS, NANOSECONDS)
def test_later_ones_sort_after_earlier_ones_also_within_a_millisecond(a: int, b: int) -> None:
    earlier, later = sorted((a, b))
    if later - earlier >= 245:  # a 4096th of a millisecond
        assert uuid7(earlier) < uuid7(later)


def test_no_two_are_equal() -> None:
    assert len({uuid7(0) for _ in range(10_000)}) == 10_000
