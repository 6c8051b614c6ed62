"""What is on record: the audit log and the books."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime

from headrace.access.audit import AuditEntry, list_audit
from headrace.api.admin.audit import AuditPage, AuditQuery, AuditView
from headrace.api.admin.usage import UsageList, UsageQuery, UsageView
from headrace.edge.admin.endpoint import Ask
from headrace.edge.admin.office import Office
from headrace.edge.admin.values import cursors, given, milliseconds
from headrace.ledger.usage import sum_usage


class Records:
    def __init__(self, office: Office) -> None:
        self._office = office

    async def audit(self, ask: Ask) -> AuditPage:
        query: AuditQuery = ask.query
        found = await self._office.report(
            ask.principal.key_id,
            lambda db: list_audit(
                db,
                limit=query.limit + 1,
                before=given(query.after),
                subject=given(query.subject),
                since=milliseconds(query.since),
            ),
        )
        data = [_entry(entry) for entry in found[: query.limit]]
        return AuditPage(data=data, **cursors([str(entry.id) for entry in found], query.limit))

    async def usage(self, ask: Ask) -> UsageList:
        query: UsageQuery = ask.query
        since = given(query.since)
        moment = None if since is None else datetime.fromtimestamp(since, UTC)
        rows = await self._office.report(
            ask.principal.key_id,
            lambda db: sum_usage(db, by=query.by, tenant=given(query.tenant), since=moment),
        )
        return UsageList(data=[UsageView(**asdict(row)) for row in rows])


def _entry(entry: AuditEntry) -> AuditView:
    return AuditView(
        id=str(entry.id),
        created_at=entry.moment // 1000,
        actor=entry.actor,
        action=entry.action,
        subject=entry.subject,
        before=entry.before,
        after=entry.after,
    )
