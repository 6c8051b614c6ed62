"""What tenants used, as the books have it."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from headrace.api.admin.fields import Moment, Name
from headrace.api.admin.pages import Listing


class UsageQuery(msgspec.Struct, frozen=True, kw_only=True):
    by: Literal["day", "model", "key", "tenant"] = "day"
    tenant: Name | UnsetType = UNSET
    since: Moment | UnsetType = UNSET


class UsageView(msgspec.Struct, frozen=True, kw_only=True):
    """group: a day (UTC), or a name or an id of what was asked for. cached_tokens are part of
    prompt_tokens."""

    object: Literal["usage"] = "usage"
    group: str
    requests: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


class UsageList(Listing, frozen=True, kw_only=True):
    data: list[UsageView]
