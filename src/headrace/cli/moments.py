"""Moments and spans of time as people type them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from headrace.cli.output import CommandError

_SPAN = re.compile(r"(\d{1,6})([smhdw])", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def moment_ahead(text: str, option: str) -> datetime:
    """The end of a span that begins now ("30d"), or a date or time in ISO form.

    Raises:
        CommandError: neither, or beyond the calendar; it names the option.
    """
    return _moment(text, option, direction=1)


def moment_ago(text: str, option: str) -> datetime:
    """As `moment_ahead`, for a span that ends now."""
    return _moment(text, option, direction=-1)


def span(text: str, option: str) -> timedelta:
    """A span of time such as "12h" or "30d".

    Raises:
        CommandError: it is none; it names the option.
    """
    if match := _SPAN.fullmatch(text):
        return timedelta(**{_UNITS[match[2]]: int(match[1])})
    raise CommandError(f"{option}: {text!r} is no span such as 12h or 30d")


def iso(milliseconds: int | None) -> str | None:
    """Unix milliseconds as people and programs read them, in UTC."""
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")


def _moment(text: str, option: str, direction: int) -> datetime:
    try:
        if match := _SPAN.fullmatch(text):
            return datetime.now(UTC) + direction * timedelta(**{_UNITS[match[2]]: int(match[1])})
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise CommandError(
            f"{option}: {text!r} is neither a span such as 12h or 30d nor a date such as 2026-01-31"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
