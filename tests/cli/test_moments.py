"""Moments as people type them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headrace.cli.moments import iso, moment_ago, moment_ahead
from headrace.cli.output import CommandError


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("45s", timedelta(seconds=45)),
        ("90m", timedelta(minutes=90)),
        ("12h", timedelta(hours=12)),
        ("30d", timedelta(days=30)),
        ("2w", timedelta(weeks=2)),
    ],
)
def test_a_span_counts_from_now(text: str, span: timedelta) -> None:
    before = datetime.now(UTC)
    ahead, ago = moment_ahead(text, "--x"), moment_ago(text, "--x")
    after = datetime.now(UTC)
    assert before + span <= ahead <= after + span
    assert before - span <= ago <= after - span


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T12:30", datetime(2026, 1, 31, 12, 30, tzinfo=UTC)),
        ("2026-01-31T12:30+02:00", datetime(2026, 1, 31, 10, 30, tzinfo=UTC)),
    ],
)
def test_a_date_is_utc_unless_it_says_otherwise(text: str, moment: datetime) -> None:
    assert moment_ahead(text, "--x") == moment_ago(text, "--x") == moment


@pytest.mark.parametrize("text", ["", "d", "30", "30y", "-3d", "1.5h", "tomorrow", "999999w"])
def test_anything_else_is_refused_with_the_options_name(text: str) -> None:
    with pytest.raises(CommandError, match=r"--since: .* is neither a span"):
        moment_ago(text, "--since")
    with pytest.raises(CommandError, match=r"--expires: .* is neither a span"):
        moment_ahead(text, "--expires")


def test_iso() -> None:
    assert iso(None) is None
    assert iso(1_700_000_000_999) == "2023-11-14T22:13:20+00:00"
