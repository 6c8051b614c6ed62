"""Until when a caller wants the first token, as its headers tell."""

from __future__ import annotations

import math

from starlette.types import Scope

from headrace.api.openai.errors import ApiError, invalid_request
from headrace.edge.headers import header

DEADLINE_HEADER = "x-headrace-deadline-ms"
"""Milliseconds from now, a positive whole number."""

TIMEOUT_HEADERS = ("x-stainless-read-timeout", "x-stainless-timeout")
"""Seconds for which OpenAI's and Anthropic's clients wait for an answer to begin; Python's, then
JavaScript's."""

UNSAID = "NOT_GIVEN"
"""What Anthropic's says in the second where it tells the first alone."""

MOST_MILLISECONDS = 10**9

_DEADLINE = DEADLINE_HEADER.encode()
_TIMEOUTS = [(name, name.encode()) for name in TIMEOUT_HEADERS]


def deadline_of(scope: Scope, now: float) -> float | None:
    """The earliest of what the headers say, by the clock that says `now`, in seconds; None if they
    say nothing. Raises ApiError if one makes no sense."""
    waits = []
    if (text := header(scope, _DEADLINE)) is not None:
        waits.append(_milliseconds(text) / 1000)
    for name, encoded in _TIMEOUTS:
        text = header(scope, encoded)
        if text is not None and text != UNSAID:
            waits.append(_seconds(name, text))
    soonest = min(waits, default=math.inf)
    return None if soonest == math.inf else now + soonest


def _milliseconds(text: str) -> int:
    digits = text if len(text) <= 10 and text.isascii() and text.isdigit() else "0"
    if not 0 < int(digits) <= MOST_MILLISECONDS:
        raise _nonsense(DEADLINE_HEADER, f"a whole number from 1 to {MOST_MILLISECONDS}")
    return int(digits)


def _seconds(name: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise _nonsense(name, "a number of seconds")
    if seconds > MOST_MILLISECONDS / 1000:
        return math.inf
    return seconds or 1.0  # JavaScript's client cuts fractions off: it has less than a second


def _nonsense(name: str, wanted: str) -> ApiError:
    return invalid_request(f"Invalid header '{name}': it must be {wanted}.", name)
