"""How commands print: data on stdout as a table or as JSON, trouble on stderr as one line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
"""The annotation of every data-printing command's `as_json: JsonFlag = False`."""


class CommandError(Exception):
    """A command cannot do what was asked; its message is the one line the user sees."""


@contextmanager
def plainly(*errors: type[Exception]) -> Iterator[None]:
    """Turn the errors a room is known to raise into `CommandError`s with the same words."""
    try:
        yield
    except errors as error:
        raise CommandError(str(error)) from error


def print_json(data: object) -> None:
    """Data as indented JSON; paths, times and ids become strings."""
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False, default=str))


def print_rows(rows: Sequence[Mapping[str, object]], *, as_json: bool, empty: str = "") -> None:
    """Records with equal keys, as a JSON array or a table headed by the keys.

    empty: what to say on stderr instead of a table without rows.
    """
    if as_json:
        print_json(list(rows))
    elif rows:
        _print_table([str(name) for name in rows[0]], [list(row.values()) for row in rows])
    elif empty:
        typer.echo(empty, err=True)


def print_record(record: Mapping[str, object], *, as_json: bool) -> None:
    """One record, as a JSON object or as lines of name and value."""
    if as_json:
        print_json(record)
        return
    width = max(map(len, record), default=0)
    for name, value in record.items():
        typer.echo(f"{name.replace('_', ' '):{width}}  {_cell(value)}")


def size(count: float) -> str:
    """Bytes in words: 1536 is "1.5 KiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def _print_table(names: list[str], rows: list[list[object]]) -> None:
    """Columns as wide as their widest cell: output that pipes and pastes well."""
    cells = [[name.replace("_", " ").upper() for name in names]]
    cells += [[_cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        padded = (f"{cell:{width}}" for cell, width in zip(line, widths, strict=True))
        typer.echo("  ".join(padded).rstrip())


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={item}" for name, item in value.items()) or "-"
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(map(str, value)) or "-"
    return str(value)
