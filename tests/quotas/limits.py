"""Limits for tests, by their shortest description."""

from __future__ import annotations

from headrace.access.limits import Kind
from headrace.quotas.inforce import KINDS
from headrace.quotas.limit import Limit
from headrace.quotas.store import Settlement


def limit(kind: Kind, size: int, name: str = "", counter: str = "") -> Limit:
    names = {
        "rate": "requests_per_minute",
        "slots": "concurrent_requests",
        "budget": "budget",
    }
    name = name or names[kind]
    return Limit(
        kind=kind,
        unit=KINDS[name][1],
        name=name,
        subject="tenant",
        whose="acme",
        counter=counter or f"t.{name}",
        size=size,
        rate=size,
        stated=size,
        ends=10**13,
    )


def unused(*limits: Limit, drawn: int = 1) -> list[Settlement]:
    """All of it comes back."""
    return [Settlement(limit, drawn, 0) for limit in limits]
