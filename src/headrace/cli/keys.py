"""`headrace keys`: make, list, limit, rotate and revoke API keys, beside the running service or
without it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.books import actor, changing, changing_keys, in_data_dir, open_unserved, reading
from headrace.cli.limits import changed, described, with_limits
from headrace.cli.moments import iso, moment_ahead, span
from headrace.cli.output import CommandError, JsonFlag, plainly, print_record, print_rows
from headrace.settings import Settings

if TYPE_CHECKING:
    from headrace.access.keys import StoredKey

app = typer.Typer(
    help="Make, list, limit, rotate and revoke API keys. A running service follows at once.",
    no_args_is_help=True,
)

Id = Annotated[str, typer.Argument(metavar="ID", help="The part between hr- and _.")]


@app.command()
@in_data_dir
@with_limits
def create(
    settings: Settings,
    limits: Mapping[str, object],
    tenant: Annotated[str, typer.Option(help="Whom the key is for; see `headrace tenants`.")],
    scope: Annotated[
        list[str] | None, typer.Option(help="What it may do: inference (default), admin.")
    ] = None,
    expires: Annotated[str | None, typer.Option(help="A span (30d) or a date.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a key. It is shown this once and stored nowhere. Limits hold beside its tenant's."""
    from headrace.access.key import Key
    from headrace.access.keys import create_key
    from headrace.access.limits import UNLIMITED
    from headrace.access.tenants import get_tenant

    end = None if expires is None else moment_ahead(expires, "--expires")
    if end is not None and end.timestamp() <= time.time():
        raise CommandError(f"--expires: {expires!r} is in the past")
    key = Key.make()
    with changing_keys(settings) as (connection, pepper):
        stored = create_key(
            connection,
            key,
            pepper,
            tenant=get_tenant(connection, tenant).name,
            scopes=scope or ["inference"],
            actor=actor(),
            expires_at=None if end is None else int(end.timestamp() * 1000),
            limits=changed(UNLIMITED, limits),
        )
    record = {
        "id": stored.id,
        "key": key.text,
        "tenant": stored.tenant,
        "scopes": sorted(stored.scopes),
        "limits": described(stored.limits),
        "expires": iso(stored.expires_at),
    }
    _print_secret(record, as_json=as_json)


@app.command("list")
@in_data_dir
def list_all(
    settings: Settings,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """List keys: their ids, never their secrets."""
    from headrace.access.keys import list_keys

    with reading(settings) as connection:
        rows = [_described(stored) for stored in list_keys(connection, tenant)]
    print_rows(rows, as_json=as_json, empty="no keys")


@app.command()
@in_data_dir
@with_limits
def update(
    settings: Settings, id: Id, limits: Mapping[str, object], as_json: JsonFlag = False
) -> None:
    """Change the limits that are given and no others."""
    from headrace.access.keys import limit_key

    if not limits:
        raise CommandError("nothing to change was given")
    with changing(settings) as connection:
        stored = limit_key(connection, id, lambda old: changed(old, limits), actor=actor())
    print_record(_described(stored), as_json=as_json)


@app.command()
@in_data_dir
def rotate(
    settings: Settings,
    id: Id,
    grace: Annotated[
        str, typer.Option(metavar="SPAN", help="How long the old secret lives on, e.g. 12h; 0s.")
    ] = "1d",
    as_json: JsonFlag = False,
) -> None:
    """Give a key a new secret beside the old one, shown this once. A secret older than that ends
    now: two at most are live."""
    from headrace.access.key import Key
    from headrace.access.keys import rotate_key

    lives = int(span(grace, "--grace").total_seconds() * 1000)
    key = Key.make(id)
    with changing_keys(settings) as (connection, pepper):
        stored = rotate_key(connection, key, pepper, grace=lives, actor=actor())
    record = {
        "id": stored.id,
        "key": key.text,
        "tenant": stored.tenant,
        "old_ends": iso(stored.secrets[1].expires_at),
        "expires": iso(stored.expires_at),
    }
    _print_secret(record, as_json=as_json)


@app.command()
@in_data_dir
def revoke(settings: Settings, id: Id, as_json: JsonFlag = False) -> None:
    """End a key for good, with all its secrets. A running service refuses it at once."""
    from headrace.access.keys import revoke_key

    with changing(settings) as connection:
        stored = revoke_key(connection, id, actor=actor())
    print_record(_described(stored), as_json=as_json)


@app.command("replace-pepper")
@in_data_dir
def replace_lost_pepper(
    settings: Settings,
    yes: Annotated[
        bool, typer.Option("--yes", help="All keys stop working, and that is meant.")
    ] = False,
) -> None:
    """Go on with another pepper where the right one is lost. All keys stop working until
    `headrace keys rotate ID` gives each a new secret. Stop the service first."""
    from headrace.access.errors import AccessError
    from headrace.access.pepper import replace_pepper

    if not yes:
        raise CommandError(
            "all keys would stop working until `headrace keys rotate ID` gives each a new secret; "
            "add --yes if that is meant"
        )
    with open_unserved(settings) as database, plainly(AccessError):
        replace_pepper(database, settings.data_dir, actor=actor())
    typer.echo("The pepper is replaced. Give each key a new secret: headrace keys rotate ID")


def _print_secret(record: Mapping[str, object], *, as_json: bool) -> None:
    print_record(record, as_json=as_json)
    if not as_json:
        typer.echo("Keep the key now: it is not stored and cannot be shown again.", err=True)


def _described(stored: StoredKey) -> dict[str, object]:
    now = time.time()
    live = sum(secret.is_live(now) for secret in stored.secrets) if stored.is_valid(now) else 0
    return {
        "id": stored.id,
        "tenant": stored.tenant,
        "scopes": sorted(stored.scopes),
        "state": stored.state(now),
        "live_secrets": live,
        "limits": described(stored.limits),
        "created": iso(stored.created_at),
        "expires": iso(stored.expires_at),
        "revoked": iso(stored.revoked_at),
    }
