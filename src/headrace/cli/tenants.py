"""`headrace tenants`: whom the service works for, and what they may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headrace.cli.books import actor, changing, in_data_dir, reading
from headrace.cli.limits import changed, described, with_limits
from headrace.cli.moments import iso
from headrace.cli.output import CommandError, JsonFlag, print_record, print_rows
from headrace.settings import Settings

if TYPE_CHECKING:
    from headrace.access.tenant import Tenant

app = typer.Typer(
    help="Make, list and change tenants. A running service follows at once.",
    no_args_is_help=True,
)

ALL = "all"

Name = Annotated[str, typer.Argument(metavar="NAME", help="The tenant.")]
Class = Annotated[
    Literal["interactive", "default", "batch"] | None,
    typer.Option("--class", help="The best class its requests may ask for (first: default)."),
]
Weight = Annotated[
    int | None, typer.Option(help="Its share against others of its class, 1 to 1000 (first: 1).")
]
Models = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help=f"Models it may use, as a,b; {ALL}: all (first: {ALL})."),
]


@app.command()
@in_data_dir
@with_limits
def create(
    settings: Settings,
    name: Name,
    limits: Mapping[str, object],
    service_class: Class = None,
    weight: Weight = None,
    models: Models = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a tenant. What is not limited has no limit."""
    from headrace.access.limits import UNLIMITED
    from headrace.access.tenants import create_tenant

    with changing(settings, make=True) as connection:
        tenant = create_tenant(
            connection,
            name,
            actor=actor(),
            service_class=service_class or "default",
            weight=1 if weight is None else weight,
            limits=changed(UNLIMITED, limits),
            models=_models(ALL if models is None else models),
        )
    print_record(_record(tenant), as_json=as_json)


@app.command("list")
@in_data_dir
def list_all(settings: Settings, as_json: JsonFlag = False) -> None:
    """List tenants."""
    from headrace.access.tenants import is_usual_name, list_tenants

    with reading(settings) as connection:
        rows = [_record(tenant) for tenant in list_tenants(connection)]
    if unusual := [row["name"] for row in rows if not is_usual_name(str(row["name"]))]:
        typer.echo(f"names that no new tenant may have: {', '.join(map(repr, unusual))}", err=True)
    if not as_json:
        rows = [{k: v for k, v in row.items() if k not in ("aliases", "pins")} for row in rows]
    print_rows(rows, as_json=as_json, empty="no tenants")


@app.command()
@in_data_dir
def show(settings: Settings, name: Name, as_json: JsonFlag = False) -> None:
    """Show a tenant, with its pins and the aliases that hold for it."""
    from headrace.access.tenants import get_tenant

    with reading(settings) as connection:
        tenant = get_tenant(connection, name)
    print_record(_record(tenant), as_json=as_json)


@app.command()
@in_data_dir
@with_limits
def update(
    settings: Settings,
    name: Name,
    limits: Mapping[str, object],
    service_class: Class = None,
    weight: Weight = None,
    models: Models = None,
    as_json: JsonFlag = False,
) -> None:
    """Change what is given and nothing else."""
    given = {"service_class": service_class, "weight": weight}
    values: dict[str, object] = {key: value for key, value in given.items() if value is not None}
    if models is not None:
        values["models"] = _models(models)
    if not values and not limits:
        raise CommandError("nothing to change was given")
    _change(settings, name, values, limits, as_json=as_json)


@app.command()
@in_data_dir
def disable(settings: Settings, name: Name, as_json: JsonFlag = False) -> None:
    """Refuse all requests of a tenant's keys with 403; what is on its way ends as usual."""
    _change(settings, name, {"enabled": False}, as_json=as_json)


@app.command()
@in_data_dir
def enable(settings: Settings, name: Name, as_json: JsonFlag = False) -> None:
    """Let a tenant in again."""
    _change(settings, name, {"enabled": True}, as_json=as_json)


def _change(
    settings: Settings,
    name: str,
    values: Mapping[str, object],
    limits: Mapping[str, object] = {},
    *,
    as_json: bool,
) -> None:
    from headrace.access.tenants import change_tenant

    def change(tenant: Tenant) -> Tenant:
        return replace(tenant, limits=changed(tenant.limits, limits), **values)  # type: ignore[arg-type]

    with changing(settings) as connection:
        tenant = change_tenant(connection, name, change, actor=actor())
    print_record(_record(tenant), as_json=as_json)


def _models(text: str) -> frozenset[str] | None:
    if text == ALL:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise CommandError(f"--models: {text!r} has an empty name; use a,b or {ALL}")
    return frozenset(names)


def _record(tenant: Tenant) -> dict[str, object]:
    return {
        "name": tenant.name,
        "class": tenant.service_class,
        "weight": tenant.weight,
        "enabled": tenant.enabled,
        "models": ALL if tenant.models is None else sorted(tenant.models),
        "limits": described(tenant.limits),
        "aliases": dict(tenant.aliases),
        "pins": dict(tenant.pins),
        "created": iso(tenant.created_at),
    }
