"""Days and months in which budgets are spent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headrace.access.limits import Period


@dataclass(frozen=True, slots=True)
class Span:
    """name: unique for a kind of period; begins, ends: unix milliseconds, the end excluded."""

    name: str
    begins: int
    ends: int


def span_of(period: Period, moment: float) -> Span:
    """The day or month (UTC) of a moment in unix seconds."""
    now = datetime.fromtimestamp(moment, UTC)
    begin = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "day":
        return _span(begin.strftime("%Y-%m-%d"), begin, begin + timedelta(days=1))
    begin = begin.replace(day=1)
    return _span(begin.strftime("%Y-%m"), begin, (begin + timedelta(days=31)).replace(day=1))


def _span(name: str, begin: datetime, end: datetime) -> Span:
    return Span(name, int(begin.timestamp()) * 1000, int(end.timestamp()) * 1000)
