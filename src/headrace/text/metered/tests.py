"""The tests that templates have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import pass_context
from jinja2.tests import TESTS

from headrace.text.metered.context import MeteredContext
from headrace.text.metered.filters import of_text
from headrace.text.metered.sizes import PART

_TESTS: Mapping[str, Callable[..., Any]] = TESTS  # type: ignore[assignment]
_COMPARING_TESTS = (
    "in", "==", "eq", "equalto", "!=", "ne", ">", "gt", "greaterthan", "ge", ">=", "<", "lt",
    "lessthan", "<=", "le",
)  # fmt: skip
_NUMBER_TESTS = ("odd", "even", "divisibleby")
_TEXT_TESTS = ("lower", "upper")


def all_tests() -> dict[str, Callable[..., Any]]:
    """By name."""
    tests: dict[str, Callable[..., Any]] = {**_TESTS}
    tests |= {name: _comparing(_TESTS[name]) for name in _COMPARING_TESTS}
    tests |= {name: _of_numbers(_TESTS[name]) for name in _NUMBER_TESTS}
    return tests | {name: of_text(_TESTS[name]) for name in _TEXT_TESTS}


def _comparing(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(context: MeteredContext, left: Any, right: Any) -> Any:
        meter = context.meter
        for value in (left, right):
            meter.spend_on(value, PART)
        return function(left, right)

    return pass_context(run)


def _of_numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*values: Any) -> Any:
        if not all(isinstance(value, int | float) for value in values):
            raise TypeError("the test takes numbers")
        return function(*values)

    return run
