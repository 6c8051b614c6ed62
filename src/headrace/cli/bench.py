"""`headrace bench`: load any OpenAI-compatible server and say what it did."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from headrace.cli.flags import with_settings
from headrace.cli.output import CommandError, JsonFlag
from headrace.cli.remote import ApiKey, Url, connection, first_model
from headrace.settings import Settings

if TYPE_CHECKING:
    from headrace.load.client import Server
    from headrace.load.report import Report
    from headrace.load.workload import Workload


@with_settings("config")
def bench(
    settings: Settings,
    workloads: Annotated[
        list[str] | None, typer.Argument(help="Workloads to run, e.g. W1 W3 (default: all).")
    ] = None,
    url: Url = None,
    model: Annotated[str | None, typer.Option(help="Model (default: the first served).")] = None,
    key: ApiKey = None,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each; the median is shown.")] = 3,
    token_ids: Annotated[
        tuple[int, int], typer.Option(help="Prompts are drawn from these token ids (from, to).")
    ] = (1000, 40000),
    output: Annotated[Path | None, typer.Option(help="Write every run as JSON here.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure throughput, time to first token and inter-token latency.

    Prompts are random token ids, new in every run, so no prefix cache helps by accident.
    """
    from headrace.load.client import Server
    from headrace.load.workload import builtin

    known = builtin()
    chosen = workloads or list(known)
    if unknown := [name for name in chosen if name not in known]:
        raise typer.BadParameter(f"unknown workload {unknown[0]}; there are {', '.join(known)}")
    with connection(settings, url, key) as client:
        server = Server(
            url=f"{str(client.base_url).rstrip('/')}/v1",
            model=model or first_model(client),
            key=client.headers.get("authorization", "").removeprefix("Bearer "),
        )
    reports = _measured({name: known[name] for name in chosen}, server, range(*token_ids), runs)
    if output is not None:
        output.write_bytes(msgspec.json.format(msgspec.json.encode(reports)))
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(reports)).decode())
    else:
        _print(reports, known)


def _measured(
    workloads: Mapping[str, Workload], server: Server, ids: range, runs: int
) -> dict[str, list[Report]]:
    """Every run of each workload; none where the server does not do what it asks. Raises
    CommandError if the server can't be reached or fails."""
    from rich.console import Console
    from rich.progress import Progress

    from headrace.load.client import LoadError, Refused
    from headrace.load.report import summarise
    from headrace.load.run import run

    console = Console(stderr=True)
    reports: dict[str, list[Report]] = {name: [] for name in workloads}
    try:
        with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
            for name, workload in workloads.items():
                task = progress.add_task(f"{name} {workload.title}", total=workload.requests * runs)
                advance = partial(progress.advance, task)
                try:
                    for _ in range(runs):
                        going = run(workload, server, ids, finished=lambda _: advance())  # noqa: B023
                        reports[name].append(summarise(asyncio.run(going)))
                except Refused:
                    if workload.schema is None:
                        raise
    except ConnectionError:
        raise CommandError(f"no service answers at {server.url}") from None
    except (LoadError, OSError) as error:
        raise CommandError(str(error)) from None
    return reports


def _print(reports: Mapping[str, Sequence[Report]], known: Mapping[str, Workload]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("workload", "out tok/s", "total tok/s", "TTFT p50/p99 ms", "ITL p50/p99 ms")
    for name, each in reports.items():
        title = f"{name}: {known[name].title}"
        if not each:
            table.add_row(title, "not supported yet")
            continue
        middle = sorted(each, key=lambda report: report.output_rate)[len(each) // 2]
        table.add_row(
            title,
            f"{middle.output_rate:.1f}",
            f"{middle.total_rate:.1f}",
            f"{middle.ttft_p50:.0f} / {middle.ttft_p99:.0f}",
            f"{middle.itl_p50:.2f} / {middle.itl_p99:.2f}",
        )
    Console().print(table)
