"""The audit log: who changed what."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from headrace.api.admin.fields import Moment
from headrace.api.admin.pages import Limit, Page


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    """after: entries older than this one."""

    limit: Limit = 100
    after: UUID | UnsetType = UNSET
    subject: Annotated[str, Meta(min_length=1, max_length=400)] | UnsetType = UNSET
    since: Moment | UnsetType = UNSET


class AuditView(msgspec.Struct, frozen=True, kw_only=True):
    """actor: key:ID, user:NAME of a command's user, or bootstrap. before, after: null where it did
    not or does not exist."""

    id: str
    object: Literal["audit_entry"] = "audit_entry"
    created_at: int
    actor: str
    action: str
    subject: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class AuditPage(Page, frozen=True, kw_only=True):
    """The newest first."""

    data: list[AuditView]
