"""`headrace usage`: what was asked and generated, summed up."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

import typer

from headrace.cli.books import in_data_dir, open_database
from headrace.cli.moments import moment_ago
from headrace.cli.output import JsonFlag, print_rows
from headrace.settings import Settings


@in_data_dir
def usage(
    settings: Settings,
    by: Annotated[
        Literal["day", "model", "key", "tenant"], typer.Option(help="What gets a row.")
    ] = "day",
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Only requests since: a span (7d) or a date, in UTC.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Sum up requests and their tokens. A day is a day in UTC."""
    from headrace.ledger.usage import sum_usage

    start = None if since is None else moment_ago(since, "--since")
    with open_database(settings) as database, database.transaction() as connection:
        sums = sum_usage(connection, by=by, tenant=tenant, since=start)
    rows = []
    for row in map(asdict, sums):
        rows.append({by: row.pop("group")} | row)
    print_rows(rows, as_json=as_json, empty="no requests")
