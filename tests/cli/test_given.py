"""An empty value is an error, of every option and argument of every command."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup, TyperOption

from headrace.cli import main as cli


def commands(group: TyperGroup, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


def find(path: tuple[str, ...]) -> Any:
    command: Any = typer.main.get_command(cli.app)
    for name in path:
        assert isinstance(command, TyperGroup)
        command = command.commands[name]
    return command


def texts() -> Iterator[tuple[tuple[str, ...], str]]:
    """Every command, with the name of each of its parameters that takes a value."""
    root = typer.main.get_command(cli.app)
    assert isinstance(root, TyperGroup)
    for path in commands(root):
        for parameter in find(path).params:
            if not (isinstance(parameter, TyperOption) and parameter.is_flag):
                assert parameter.name is not None
                yield path, parameter.name


def test_there_are_many_of_them() -> None:
    assert len(list(texts())) > 200


@pytest.mark.parametrize(("path", "name"), list(texts()), ids=str)
def test_an_empty_value_is_refused_by_name_and_does_nothing(
    path: tuple[str, ...],
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADRACE_DATA_DIR", str(tmp_path / "data"))
    words: list[str] = []
    for parameter in find(path).params:
        given = "" if parameter.name == name else "x"
        if isinstance(parameter, TyperOption):
            if parameter.name == name or parameter.required:
                words += [parameter.opts[0], *[given] * parameter.nargs]
        elif parameter.name == name or parameter.required:
            words.append(given)
    monkeypatch.setattr(sys, "argv", ["headrace", *path, *words])
    with pytest.raises(SystemExit) as end:
        cli.main()
    said = capsys.readouterr().err
    assert end.value.code in (1, 2), said
    assert "empty" in said or "nvalid value" in said, said
    assert not (tmp_path / "data").exists()
