"""API keys: who may speak for a tenant."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from headrace.api.admin.fields import Moment, Name, Scope
from headrace.api.admin.limits import LimitsChange, LimitsView
from headrace.api.admin.pages import Page, PageQuery

LONGEST_GRACE = 30 * 86400


class KeysQuery(PageQuery, frozen=True, kw_only=True):
    tenant: Name | UnsetType = UNSET


class KeyBody(msgspec.Struct, frozen=True, kw_only=True):
    """tenant: its name; there must be one. expires_at: never without."""

    tenant: Name
    scopes: Annotated[tuple[Scope, ...], Meta(min_length=1, max_length=2)] = ("inference",)
    expires_at: Moment | None = None
    limits: LimitsChange = LimitsChange()


class KeyChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes what is given."""

    limits: LimitsChange


class Rotation(msgspec.Struct, frozen=True, kw_only=True):
    """grace_seconds: for which the old secret still opens."""

    grace_seconds: Annotated[int, Meta(ge=0, le=LONGEST_GRACE)] = 86400


class SecretView(msgspec.Struct, frozen=True, kw_only=True):
    """When a secret was made and when it ends, in unix seconds."""

    created_at: int
    expires_at: int | None


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    """id: the public part of the key. Moments are unix seconds. secrets: all it ever had, the
    newest first."""

    id: str
    object: Literal["key"] = "key"
    tenant: str
    scopes: list[Scope]
    state: Literal["valid", "expired", "revoked"]
    limits: LimitsView
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    secrets: list[SecretView]


class ShownKey(KeyView, frozen=True, kw_only=True):
    """key: what callers send. It is shown this once and kept nowhere."""

    key: str


class KeyPage(Page, frozen=True, kw_only=True):
    data: list[KeyView]
