"""The `headrace` command. Rooms are imported by the commands that need them, when they run."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headrace import __version__
from headrace.cli import (
    aliases,
    audit,
    bench,
    chat,
    config,
    doctor,
    drain,
    hosted,
    keys,
    migrate,
    models,
    pins,
    prices,
    serve,
    tenants,
    usage,
)
from headrace.cli.given import Commands
from headrace.cli.output import CommandError
from headrace.settings import SettingsError

app = typer.Typer(
    name="headrace",
    cls=Commands,
    help="Self-hosted LLM inference: everything between an API key and a token.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(serve.serve)
app.command()(chat.chat)
app.command()(drain.drain)
for of_service in (hosted.ps, hosted.load, hosted.unload):
    models.app.command()(of_service)
app.add_typer(models.app, name="models")
app.add_typer(tenants.app, name="tenants")
app.add_typer(keys.app, name="keys")
app.add_typer(aliases.app, name="aliases")
app.add_typer(pins.app, name="pins")
app.add_typer(prices.app, name="prices")
app.add_typer(audit.app, name="audit")
app.command()(migrate.migrate)
app.command()(usage.usage)
app.command()(config.config)
app.command()(doctor.doctor)
app.command()(bench.bench)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headrace {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run a command. What goes wrong is one line on stderr and a non-zero exit code."""
    try:
        app()
    except (CommandError, SettingsError, OSError) as error:
        typer.echo(f"headrace: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
