"""What a tenant or a key may use; `access.limits.Limits` tells what each means."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from headrace.api.admin.fields import Count, Money, Period


class LimitsChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """null: no such limit. What is left out stays as it is."""

    requests_per_minute: Count | UnsetType | None = UNSET
    input_tokens_per_minute: Count | UnsetType | None = UNSET
    output_tokens_per_minute: Count | UnsetType | None = UNSET
    concurrent_requests: Count | UnsetType | None = UNSET
    budget: Money | UnsetType | None = UNSET
    budget_period: Period | UnsetType = UNSET
    long_requests_per_minute: Count | UnsetType | None = UNSET
    long_input_tokens_per_minute: Count | UnsetType | None = UNSET
    long_concurrent_requests: Count | UnsetType | None = UNSET
    default_max_tokens: Count | UnsetType | None = UNSET


class LimitsView(msgspec.Struct, frozen=True, kw_only=True):
    """null: no such limit."""

    requests_per_minute: int | None
    input_tokens_per_minute: int | None
    output_tokens_per_minute: int | None
    concurrent_requests: int | None
    budget: str | None
    budget_period: Period
    long_requests_per_minute: int | None
    long_input_tokens_per_minute: int | None
    long_concurrent_requests: int | None
    default_max_tokens: int | None
