"""The limits that hold for a request: its tenant's and its key's, all at once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from headrace.access.limits import ABOUT, UNLIMITED, Kind, Limits, Unit
from headrace.access.principal import Principal
from headrace.quotas.limit import Limit, Subject
from headrace.quotas.period import span_of

DAY = 86400

KINDS: dict[str, tuple[Kind, Unit]] = {
    name: (about.kind, about.unit)
    for name, about in ABOUT.items()
    if about.kind is not None and about.unit is not None
}
"""Of the limits whose uses are counted."""


def limits_in_force(principal: Principal, long: bool, moment: float) -> tuple[Limit, ...]:
    """moment: unix seconds. Empty for nearly everybody who has no limits, at once."""
    tenant = principal.tenant
    if tenant.limits is UNLIMITED and principal.limits is UNLIMITED:
        return ()
    names = (tenant.name, principal.key_id)
    return _of(tenant.limits, principal.limits, names, long, int(moment) // DAY)


@lru_cache(maxsize=4096)
def _of(
    tenant: Limits, key: Limits, names: tuple[str, str], long: bool, day: int
) -> tuple[Limit, ...]:
    return (
        *_each(tenant, "tenant", names[0], "t", long, day),
        *_each(key, "key", names[1], f"k.{names[1]}", long, day),
    )


def _each(
    limits: Limits, subject: Subject, whose: str, prefix: str, long: bool, day: int
) -> Iterator[Limit]:
    for name, (kind, unit) in KINDS.items():
        size: int | None = getattr(limits, name)
        if size is None or (name.startswith("long_") and not long):
            continue
        counter, ends = f"{prefix}.{name}", 0
        if kind == "budget":
            span = span_of(limits.budget_period, day * DAY)
            counter, ends = f"{counter}.{span.name}", span.ends
        yield Limit(
            kind=kind,
            unit=unit,
            name=name,
            subject=subject,
            whose=whose,
            counter=counter,
            size=size,
            rate=size,
            stated=size,
            ends=ends,
        )
