"""Who changed what: written in the transaction of the change, and never changed itself."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec
from sqlalchemy import Connection, insert, select

from headrace.store.ids import uuid7
from headrace.store.schema import audit

State = Mapping[str, object]
"""What is known of a subject, as JSON may hold it. Never a secret, nor a digest of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """moment: unix milliseconds. actor: "key:<id>" for an API key, "user:<name>" for a user of the
    machine, or "bootstrap". action: a verb of a noun, as "tenant.update". subject: the name of
    what was changed. before, after: None where it did not or does not exist."""

    id: UUID
    moment: int
    actor: str
    action: str
    subject: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


def record(
    connection: Connection,
    actor: str,
    action: str,
    subject: str,
    *,
    before: State | None = None,
    after: State | None = None,
) -> None:
    """Write a change down, unless it changed nothing."""
    if before == after:
        return
    values = {
        "id": uuid7(),
        "moment": time.time_ns() // 1_000_000,
        "actor": actor,
        "action": action,
        "subject": subject,
        "before": _encoded(before),
        "after": _encoded(after),
    }
    connection.execute(insert(audit).values(values))


def list_audit(
    connection: Connection,
    *,
    limit: int = 100,
    before: UUID | None = None,
    subject: str | None = None,
    since: int | None = None,
) -> list[AuditEntry]:
    """The latest entries, the newest first. before: those older than this entry. since: unix
    milliseconds."""
    query = select(audit).order_by(audit.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(audit.c.id < before)
    if subject is not None:
        query = query.where(audit.c.subject == subject)
    if since is not None:
        query = query.where(audit.c.moment >= since)
    return [_entry(row._asdict()) for row in connection.execute(query)]


def _entry(values: dict[str, Any]) -> AuditEntry:
    states = {name: _decoded(values[name]) for name in ("before", "after")}
    return AuditEntry(**{**values, **states})


def _encoded(state: State | None) -> str | None:
    return None if state is None else msgspec.json.encode(state, order="sorted").decode()


def _decoded(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)
