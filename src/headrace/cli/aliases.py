"""`headrace aliases`: other names for models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.books import about_models, actor, changing, in_data_dir, reading
from headrace.cli.known import CatalogueModels, Force
from headrace.cli.output import JsonFlag, print_record, print_rows
from headrace.settings import Settings

if TYPE_CHECKING:
    from headrace.access.aliases import Alias

app = typer.Typer(
    help="Other names for models, a tenant's or everybody's. A running service follows at once.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="What requests call the model.")]
Owner = Annotated[str | None, typer.Option(help="Whose name it is (default: everybody's).")]


@app.command("set")
@about_models
def put(
    settings: Settings,
    name: Name,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="A model's name, or name@version.")
    ],
    tenant: Owner = None,
    force: Force = False,
    as_json: JsonFlag = False,
) -> None:
    """Make a name stand for a model, whatever it stood for."""
    from headrace.access.aliases import set_alias

    known = CatalogueModels(settings)
    with changing(settings, make=True) as connection:
        alias = set_alias(
            connection, name, target, tenant=tenant, actor=actor(), known=None if force else known
        )
    print_record(asdict(alias), as_json=as_json)


@app.command("list")
@about_models
def list_all(
    settings: Settings,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's own.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """List aliases, everybody's first. Where `exists` is no, the alias means nothing any more."""
    from headrace.access.aliases import list_aliases
    from headrace.access.known import exists

    with reading(settings) as connection:
        found = list_aliases(connection)
    known = CatalogueModels(settings)
    rows = [
        asdict(alias) | {"exists": exists(known, alias.target, _seen_by(alias.tenant, found))}
        for alias in found
        if tenant in (None, alias.tenant)
    ]
    print_rows(rows, as_json=as_json, empty="no aliases")


def _seen_by(tenant: str | None, found: Sequence[Alias]) -> set[str]:
    return {alias.name for alias in found if alias.tenant in (None, tenant)}


@app.command()
@in_data_dir
def remove(settings: Settings, name: Name, tenant: Owner = None, as_json: JsonFlag = False) -> None:
    """Forget a name."""
    from headrace.access.aliases import remove_alias

    with changing(settings) as connection:
        alias = remove_alias(connection, name, tenant=tenant, actor=actor())
    print_record(asdict(alias), as_json=as_json)
