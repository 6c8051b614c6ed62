"""What a tenant or a key may use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Period = Literal["day", "month"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """None is no limit. The same kinds hold for a tenant and for each of its keys, both at once.

    *_per_minute: buckets of that size which fill evenly within a minute. concurrent_requests:
    on their way at once. budget: integer nano-units of money a `budget_period`, which begins at
    midnight UTC of its first day. long_*: the same for long requests alone, beside the others.
    """

    requests_per_minute: int | None = None
    input_tokens_per_minute: int | None = None
    output_tokens_per_minute: int | None = None
    concurrent_requests: int | None = None
    budget: int | None = None
    budget_period: Period = "month"
    long_requests_per_minute: int | None = None
    long_input_tokens_per_minute: int | None = None
    long_concurrent_requests: int | None = None


UNLIMITED = Limits()
