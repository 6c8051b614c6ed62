"""The functions that templates have."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NoReturn

import jinja2
from jinja2 import pass_context

from headrace.text.metered.context import MeteredContext
from headrace.text.metered.values import as_text

MAX_PATTERN = 1000  # characters of strftime's
MAX_REFUSAL = 4000  # characters of a template's own words


def _raise_exception_(context: MeteredContext, message: object) -> NoReturn:
    raise jinja2.TemplateError(as_text(context.meter, message)[:MAX_REFUSAL])


raise_exception = pass_context(_raise_exception_)


def strftime_of(now: Callable[[], datetime]) -> Callable[[MeteredContext, str], str]:
    """`strftime_now` of templates. now: the moment, in the time zone that is to be told."""

    @pass_context
    def strftime_now(context: MeteredContext, pattern: str) -> str:
        if len(pattern) > MAX_PATTERN:
            raise ValueError(f"a pattern for a time has up to {MAX_PATTERN} characters")
        context.meter.spend(256 * len(pattern))  # what the library makes of it at most
        return now().strftime(pattern)

    return strftime_now
