from __future__ import annotations

import pytest

from headrace.api.openai.rate_limits import duration


@pytest.mark.parametrize(
    ("milliseconds", "said"),
    [
        (0, "0ms"),
        (6, "6ms"),
        (999, "999ms"),
        (1000, "1s"),
        (1001, "2s"),
        (59_999, "1m0s"),
        (62_000, "1m2s"),
        (3_600_000, "60m0s"),
    ],
)
def test_durations_are_told_as_openai_does(milliseconds: int, said: str) -> None:
    assert duration(milliseconds) == said
