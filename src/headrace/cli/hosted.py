"""`headrace models ps`, `load` and `unload`: which models a running service has in memory."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from headrace.cli.flags import with_settings
from headrace.cli.output import JsonFlag, print_json, print_record, print_rows, size
from headrace.cli.remote import ApiKey, Url, answer, connection
from headrace.settings import Settings

Name = Annotated[str, typer.Argument(metavar="NAME", help="A served name, or NAME@VERSION.")]


@with_settings("config")
def ps(settings: Settings, url: Url = None, key: ApiKey = None, as_json: JsonFlag = False) -> None:
    """List the models of the running service: in memory or not."""
    with connection(settings, url, key) as client:
        models = answer(client, "GET", "/admin/v1/models")["data"]
    if as_json:
        print_json(models)
    else:
        print_rows([_row(model) for model in models], as_json=False)


@with_settings("config")
def load(
    settings: Settings, name: Name, url: Url = None, key: ApiKey = None, as_json: JsonFlag = False
) -> None:
    """Have a model of the running service in memory; returns when it takes requests."""
    with connection(settings, url, key) as client:
        model = answer(client, "POST", f"/admin/v1/models/{quote(name)}/load")
    _print(model, as_json)


@with_settings("config")
def unload(
    settings: Settings,
    name: Name,
    grace: Annotated[
        float, typer.Option(min=0, max=3600, help="Seconds in which what runs may finish.")
    ] = 30.0,
    close: Annotated[
        bool, typer.Option("--close", help="Take no request for it until it is loaded by hand.")
    ] = False,
    url: Url = None,
    key: ApiKey = None,
    as_json: JsonFlag = False,
) -> None:
    """Free a model's memory. The next request for it loads it again, unless it is closed."""
    body = {"grace_seconds": grace, "close": close}
    with connection(settings, url, key) as client:
        model = answer(client, "POST", f"/admin/v1/models/{quote(name)}/unload", body)
    _print(model, as_json)


def _print(model: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(model)
    else:
        print_record(_row(model), as_json=False)


def _row(model: dict[str, Any]) -> dict[str, object]:
    return {
        "name": model["name"],
        "version": model["version"],
        "state": "closed" if model["closed"] else model["state"],
        "memory": size(model["memory_bytes"]),
        "requests": model["requests"],
        "error": model["error"],
    }
