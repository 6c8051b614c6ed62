"""`headrace migrate`: the database's schema."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.books import connected, in_data_dir
from headrace.cli.output import JsonFlag, plainly, print_record
from headrace.settings import Settings


@in_data_dir
def migrate(
    settings: Settings,
    check: Annotated[
        bool, typer.Option("--check", help="Only say what is missing; exit code 1 if anything is.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Bring the database to this release's schema. `headrace serve` does that by itself unless
    auto_migrate is false. Take a backup first: there is no way back."""
    from headrace.store.errors import StoreError
    from headrace.store.migrate import migrate, pending, revision
    from headrace.store.schema import HEAD

    with (
        connected(settings, make=not check) as (database, url),
        plainly(StoreError),
        database.transaction(write=not check) as connection,
    ):
        before, steps = revision(connection), pending(connection)
        if not check:
            migrate(connection)
    record: dict[str, object] = {
        "database": url.render_as_string(),
        "before": before,
        "after": before if check else HEAD,
        "missing" if check else "applied": [f"{step.id}: {step.title}" for step in steps],
    }
    print_record(record, as_json=as_json)
    if check and steps:
        raise typer.Exit(1)
