"""`headrace audit`: who changed what, and when."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.books import in_data_dir, reading
from headrace.cli.moments import iso, moment_ago
from headrace.cli.output import JsonFlag, print_rows
from headrace.settings import Settings

if TYPE_CHECKING:
    from headrace.access.audit import AuditEntry

app = typer.Typer(help="Who changed what, and when.", no_args_is_help=True)


@app.command("list")
@in_data_dir
def list_all(
    settings: Settings,
    subject: Annotated[
        str | None, typer.Option(help="Only changes to this tenant, key, alias or model.")
    ] = None,
    since: Annotated[str | None, typer.Option(help="Only since: a span (7d) or a date.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many.")] = 100,
    as_json: JsonFlag = False,
) -> None:
    """List changes, the newest first. Secrets are never written down."""
    from headrace.access.audit import list_audit

    start = None if since is None else moment_ago(since, "--since")
    moment = None if start is None else int(start.timestamp() * 1000)
    with reading(settings) as connection:
        entries = list_audit(connection, limit=limit, subject=subject, since=moment)
    rows = [_whole(entry) if as_json else _line(entry) for entry in entries]
    print_rows(rows, as_json=as_json, empty="no changes")


def _whole(entry: AuditEntry) -> dict[str, object]:
    return asdict(entry) | {"moment": iso(entry.moment)}


def _line(entry: AuditEntry) -> dict[str, object]:
    return {
        "moment": iso(entry.moment),
        "actor": entry.actor,
        "action": entry.action,
        "subject": entry.subject,
        "change": _difference(entry.before or {}, entry.after or {}),
    }


def _difference(before: dict[str, object], after: dict[str, object]) -> list[str]:
    names = [name for name in before | after if before.get(name) != after.get(name)]
    return [f"{name}: {before.get(name)} -> {after.get(name)}" for name in names]
