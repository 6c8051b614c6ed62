"""A progress bar on stderr for what the catalogue does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from headrace.models import disk


@contextmanager
def progress_bar(name: str) -> Iterator[disk.Progress]:
    """One line a stage, on a terminal; yields what `Catalogue.pull` and `verify` report to."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(compact=True),
    )
    tasks: dict[str, TaskID] = {}
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bars:

        def report(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(f"{name}: {stage}", total=total)
            bars.update(tasks[stage], completed=min(done, total or done), total=total)

        yield report
