"""`headrace drain`: let nothing new into a running service."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from headrace.cli.flags import with_settings
from headrace.cli.output import CommandError, JsonFlag, print_json, print_record
from headrace.cli.remote import ApiKey, Url, answer, connection
from headrace.settings import Settings

LOOK_SECONDS = 0.5


@with_settings("config")
def drain(
    settings: Settings,
    undo: Annotated[bool, typer.Option("--undo", help="Admit requests again.")] = False,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait until nothing is on its way any more.")
    ] = 0.0,
    url: Url = None,
    key: ApiKey = None,
    as_json: JsonFlag = False,
) -> None:
    """Let no new request into the running service; what is on its way goes on."""
    with connection(settings, url, key) as client:
        status = answer(client, "DELETE" if undo else "POST", "/admin/v1/drain")
        deadline = time.monotonic() + wait
        while not undo and status["requests"] and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
            status = answer(client, "GET", "/admin/v1/status")
    if as_json:
        print_json(status)
    else:
        print_record(status, as_json=False)
    if wait and not undo and status["requests"]:
        raise CommandError(f"{status['requests']} requests are still on their way")
