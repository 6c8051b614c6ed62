"""`headrace pins`: versions of models that tenants stay with."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from headrace.cli.books import about_models, actor, changing, in_data_dir, reading
from headrace.cli.known import CatalogueModels, Force
from headrace.cli.output import JsonFlag, print_record, print_rows
from headrace.settings import Settings

app = typer.Typer(
    help="Versions of models that tenants stay with. A running service follows at once.",
    no_args_is_help=True,
)

Owner = Annotated[str, typer.Option("--tenant", help="Who stays with it.")]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="The model's name.")]


@app.command("set")
@about_models
def put(
    settings: Settings,
    tenant: Owner,
    model: Model,
    version: Annotated[
        str, typer.Argument(metavar="VERSION", help="As `headrace models show` lists it.")
    ],
    force: Force = False,
    as_json: JsonFlag = False,
) -> None:
    """Make a tenant stay with a version, whichever it stayed with."""
    from headrace.access.pins import set_pin

    known = CatalogueModels(settings)
    with changing(settings) as connection:
        pin = set_pin(
            connection, tenant, model, version, actor=actor(), known=None if force else known
        )
    print_record(asdict(pin), as_json=as_json)


@app.command("list")
@about_models
def list_all(
    settings: Settings,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """List pins. Where `exists` is no, the version is not here any more."""
    from headrace.access.known import exists
    from headrace.access.pins import list_pins

    with reading(settings) as connection:
        pins = list_pins(connection, tenant)
    known = CatalogueModels(settings)
    rows = [asdict(pin) | {"exists": exists(known, f"{pin.model}@{pin.version}")} for pin in pins]
    print_rows(rows, as_json=as_json, empty="no pins")


@app.command()
@in_data_dir
def remove(settings: Settings, tenant: Owner, model: Model, as_json: JsonFlag = False) -> None:
    """Let a tenant have the model's present version again."""
    from headrace.access.pins import remove_pin

    with changing(settings) as connection:
        pin = remove_pin(connection, tenant, model, actor=actor())
    print_record(asdict(pin), as_json=as_json)
