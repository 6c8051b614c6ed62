from __future__ import annotations

import pytest

from headrace.api.openai.errors import ApiError
from headrace.edge.deadline import deadline_of
from tests.edge.test_small_parts import scope

NOW = 1e9


def seconds(**headers: str) -> float | None:
    deadline = deadline_of(scope(**headers), NOW)
    return None if deadline is None else deadline - NOW


def test_a_caller_that_says_nothing_has_no_deadline() -> None:
    assert seconds() is None
    assert seconds(x_stainless_timeout="Infinity") is None
    assert seconds(x_stainless_timeout="NOT_GIVEN") is None
    assert seconds(x_stainless_timeout="1e300") is None
    assert seconds(x_stainless_timeout="9" * 400) is None


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"x_headrace_deadline_ms": "1500"}, 1.5),
        ({"x_stainless_timeout": "600"}, 600),
        ({"x_stainless_read_timeout": "2.5"}, 2.5),
        ({"x_stainless_timeout": "0"}, 1),
        ({"x_headrace_deadline_ms": "9000", "x_stainless_read_timeout": "600.0"}, 9),
    ],
)
def test_the_earliest_counts(headers: dict[str, str], expected: float) -> None:
    assert seconds(**headers) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("header", "text"),
    [
        *[
            ("x-headrace-deadline-ms", text)
            for text in ("", "0", "-5", "1.5", "soon", "9" * 40, "0" * 399 + "9", "9" * 5000)
        ],
        *[("x-headrace-deadline-ms", text) for text in ("٣", "1e3", " 7 x")],
        *[("x-stainless-timeout", text) for text in ("", "-1", "nan", "ten")],
    ],
)
def test_nonsense_is_refused_by_name(header: str, text: str) -> None:
    raw = {"type": "http", "headers": [(header.encode(), text.encode())]}
    with pytest.raises(ApiError) as refused:
        deadline_of(raw, NOW)
    assert refused.value.status == 400
    assert refused.value.detail.param == header
