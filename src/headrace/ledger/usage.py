"""What charges sum up to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Literal

from sqlalchemy import ColumnElement, Connection, Integer, func, literal_column, select

from headrace.store.schema import charges, tenants

Grouping = Literal["day", "model", "key", "tenant"]

_DAY = literal_column("86400000", Integer)  # milliseconds

_GROUPS: Mapping[Grouping, ColumnElement[object]] = {
    "day": charges.c.opened_at // _DAY,
    "model": charges.c.model,
    "key": charges.c.key_id,
    "tenant": tenants.c.name,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """A sum. group: a day (UTC) in ISO form, a model's name, a key's id or a tenant's name.
    cached_tokens are part of prompt_tokens."""

    group: str
    requests: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


def sum_usage(
    connection: Connection,
    *,
    by: Grouping,
    tenant: str | None = None,
    since: datetime | None = None,
) -> list[UsageRow]:
    """Sums in the order of their groups. Requests on their way count, with no tokens yet."""
    group = _GROUPS[by]
    sums = [
        func.coalesce(func.sum(column), 0)
        for column in (
            charges.c.prompt_tokens,
            charges.c.cached_tokens,
            charges.c.completion_tokens,
        )
    ]
    query = select(group, func.count(), *sums).select_from(charges.join(tenants))
    if tenant is not None:
        query = query.where(tenants.c.name == tenant)
    if since is not None:
        query = query.where(charges.c.opened_at >= int(since.timestamp() * 1000))
    return [
        UsageRow(
            group=_day(int(value)) if by == "day" else str(value),
            requests=requests,
            prompt_tokens=int(prompt),
            cached_tokens=int(cached),
            completion_tokens=int(completion),
        )
        for value, requests, prompt, cached, completion in connection.execute(
            query.group_by(group).order_by(group)
        )
    ]


def _day(number: int) -> str:
    return (date(1970, 1, 1) + timedelta(days=number)).isoformat()
