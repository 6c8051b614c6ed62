"""`headrace migrate`: the database's schema."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.books import in_data_dir
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
    from headrace.store.database import Database
    from headrace.store.errors import StoreError
    from headrace.store.migrate import migrate, pending, revision
    from headrace.store.schema import HEAD
    from headrace.store.url import database_url

    with plainly(StoreError):
        url = database_url(settings.database_url, settings.data_dir)
        database = Database.connect(url)
        try:
            with database.transaction(write=not check) as connection:
                before, steps = revision(connection), pending(connection)
                if not check:
                    migrate(connection)
        finally:
            database.close()
    record: dict[str, object] = {
        "database": url.render_as_string(),
        "before": before,
        "after": before if check else HEAD,
        "missing" if check else "applied": [f"{step.id}: {step.title}" for step in steps],
    }
    print_record(record, as_json=as_json)
    if check and steps:
        raise typer.Exit(1)
