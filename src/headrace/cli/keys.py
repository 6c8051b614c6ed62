"""`headrace keys`: make, list and revoke API keys, beside the running service or without it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.books import actor, in_data_dir, open_database
from headrace.cli.moments import iso, moment_ahead
from headrace.cli.output import CommandError, JsonFlag, plainly, print_record, print_rows
from headrace.settings import Settings

if TYPE_CHECKING:
    from headrace.access.keys import StoredKey

app = typer.Typer(help="Make, list and revoke API keys.", no_args_is_help=True)


@app.command()
@in_data_dir
def create(
    settings: Settings,
    tenant: Annotated[str, typer.Option(help="Whom the key is for; made if new.")],
    scope: Annotated[
        list[str] | None, typer.Option(help="What it may do: inference (default), admin.")
    ] = None,
    expires: Annotated[str | None, typer.Option(help="A span (30d) or a date.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a key. It is shown this once and stored nowhere."""
    from headrace.access.errors import AccessError
    from headrace.access.key import Key
    from headrace.access.keys import create_key
    from headrace.store.files import read_pepper

    end = moment_ahead(expires, "--expires") if expires else None
    if end is not None and end.timestamp() <= time.time():
        raise CommandError(f"--expires: {expires!r} is in the past")
    key = Key.make()
    with open_database(settings) as database, plainly(AccessError):
        pepper = read_pepper(settings.data_dir)
        with database.transaction(write=True) as connection:
            stored = create_key(
                connection,
                key,
                pepper,
                tenant=tenant,
                scopes=scope or ["inference"],
                actor=actor(),
                expires_at=None if end is None else int(end.timestamp() * 1000),
            )
    record = {
        "id": stored.id,
        "key": key.text,
        "tenant": stored.tenant,
        "scopes": sorted(stored.scopes),
        "expires": iso(stored.expires_at),
    }
    print_record(record, as_json=as_json)
    if not as_json:
        typer.echo("Keep the key now: it is not stored and cannot be shown again.", err=True)


@app.command("list")
@in_data_dir
def list_all(
    settings: Settings,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """List keys: their ids, never their secrets."""
    from headrace.access.keys import list_keys

    with open_database(settings) as database, database.transaction() as connection:
        rows = [_described(stored) for stored in list_keys(connection, tenant)]
    print_rows(rows, as_json=as_json, empty="no keys")


@app.command()
@in_data_dir
def revoke(
    settings: Settings,
    id: Annotated[str, typer.Argument(metavar="ID", help="The part between hr- and _.")],
    as_json: JsonFlag = False,
) -> None:
    """End a key for good. A running service refuses it within a second or two."""
    from headrace.access.errors import AccessError
    from headrace.access.keys import revoke_key

    with (
        open_database(settings) as database,
        plainly(AccessError),
        database.transaction(write=True) as connection,
    ):
        stored = revoke_key(connection, id, actor=actor())
    print_record(_described(stored), as_json=as_json)


def _described(stored: StoredKey) -> dict[str, object]:
    return {
        "id": stored.id,
        "tenant": stored.tenant,
        "scopes": sorted(stored.scopes),
        "state": _state(stored),
        "created": iso(stored.created_at),
        "expires": iso(stored.expires_at),
        "revoked": iso(stored.revoked_at),
    }


def _state(stored: StoredKey) -> str:
    if stored.revoked_at is not None:
        return "revoked"
    return "expired" if stored.is_expired(time.time()) else "valid"
