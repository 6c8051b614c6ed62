"""`headrace bench`: load any OpenAI-compatible server and say what it did."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import typer


def bench(
    workloads: Annotated[
        list[str] | None, typer.Argument(help="Workloads to run, e.g. W1 W3 (default: all).")
    ] = None,
    url: Annotated[str, typer.Option(help="Base URL of the API.")] = "http://127.0.0.1:8080/v1",
    model: Annotated[str, typer.Option(help="Model name to ask for.")] = "smollm2-135m",
    key: Annotated[
        str, typer.Option(help="API key.", envvar="HEADRACE_API_KEY", show_envvar=True)
    ] = "",
    runs: Annotated[int, typer.Option(min=1, help="Runs of each; the median is shown.")] = 3,
    token_ids: Annotated[
        tuple[int, int], typer.Option(help="Prompts are drawn from these token ids (from, to).")
    ] = (1000, 40000),
    output: Annotated[Path | None, typer.Option(help="Write every run as JSON here.")] = None,
) -> None:
    """Measure throughput, time to first token and inter-token latency.

    Prompts are random token ids, new in every run, so no prefix cache helps by accident.
    """
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    from headrace.load.client import LoadError, Refused, Server
    from headrace.load.report import Report, summarise
    from headrace.load.run import run
    from headrace.load.workload import builtin

    known, ids = builtin(), range(*token_ids)
    chosen = workloads or list(known)
    if unknown := [name for name in chosen if name not in known]:
        raise typer.BadParameter(f"unknown workload {unknown[0]}; there are {', '.join(known)}")
    server = Server(url=url, model=model, key=key)
    reports: dict[str, list[Report]] = {name: [] for name in chosen}
    console = Console(stderr=True)
    try:
        with Progress(console=console, transient=True) as progress:
            for name in chosen:
                workload = known[name]
                task = progress.add_task(f"{name} {workload.title}", total=workload.requests * runs)
                advance = partial(progress.advance, task)
                try:
                    for _ in range(runs):
                        going = run(workload, server, ids, finished=lambda _: advance())  # noqa: B023
                        reports[name].append(summarise(asyncio.run(going)))
                except* Refused:
                    if workload.schema is None:
                        raise
    except* (LoadError, OSError) as errors:
        console.print(f"[red]headrace bench:[/red] {errors.exceptions[0]}")
        sys.exit(1)

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
    if output is not None:
        output.write_bytes(msgspec.json.format(msgspec.json.encode(reports)))
