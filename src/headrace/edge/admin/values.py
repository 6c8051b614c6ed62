"""Between the wire's values and ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from headrace.access.limits import Limits
from headrace.access.price import format_money, parse_money
from headrace.api.admin.limits import LimitsChange, LimitsView

T = TypeVar("T")


def given(value: T | UnsetType) -> T | None:
    """None for what was left out."""
    return None if value is UNSET else value


def cursors(ids: Sequence[str], limit: int) -> dict[str, Any]:
    """What a page of `limit` items says of itself. ids: of its items, and of one more if there
    are more."""
    page = ids[:limit]
    ends = (page[0], page[-1]) if page else (None, None)
    return {"has_more": len(ids) > limit, "first_id": ends[0], "last_id": ends[1]}


def changed(limits: Limits, change: LimitsChange) -> Limits:
    """Raises AccessError."""
    values = {name: v for name, v in msgspec.structs.asdict(change).items() if v is not UNSET}
    if isinstance(budget := values.get("budget"), str):
        values["budget"] = parse_money(budget)
    return limits.changed(values)


def limits_view(limits: Limits) -> LimitsView:
    budget = None if limits.budget is None else format_money(limits.budget)
    return LimitsView(**{**asdict(limits), "budget": budget})


def seconds(moment: int | None) -> int | None:
    """Unix seconds of unix milliseconds."""
    return None if moment is None else moment // 1000


def milliseconds(moment: int | UnsetType | None) -> int | None:
    return None if moment is UNSET or moment is None else moment * 1000
