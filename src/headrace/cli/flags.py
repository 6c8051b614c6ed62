"""Flags made from the settings, so that none is written down twice."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from pydantic import ByteSize
from pydantic_core import PydanticUndefined

from headrace.settings import PREFIX, Settings, flag_of

FILE_ONLY = ("models",)
"""Settings that are more than a flag can say."""

FIRST = ("model", "host", "port", "config", "data_dir", "models_dir", "database_url")
"""Settings that `serve --help` lists first."""

SEVERAL = ("model",)
"""Settings whose flag may be given again."""


METAVARS: dict[Any, str] = {
    bool: "[true|false]",
    int: "N",
    float: "X",
    ByteSize: "SIZE",
    Path: "PATH",
    dict: "JSON",
}
"""What flags show for the value they take, by its type."""


def with_settings(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command a flag for each of these settings, or for all of them.

    The command's first parameter is called `settings` and receives a `Settings` in which the
    flags that were given count before the environment, the file and the defaults:

        @with_settings("data_dir", "database_url", "config")
        def show(settings: Settings, as_json: JsonFlag = False) -> None: ...
    """
    chosen = names or _all_names()

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**arguments: Any) -> None:
            given = {name: arguments.pop(name) for name in chosen}
            flags = {name: text for name, text in given.items() if text not in (None, [])}
            command(Settings(**flags), **arguments)

        hints = get_type_hints(command, include_extras=True)
        own = inspect.signature(command).parameters.values()
        parameters = [p.replace(annotation=hints[p.name]) for p in own if p.name != "settings"]
        parameters += map(_flag, chosen)
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
        return run

    return decorate


def _all_names() -> tuple[str, ...]:
    """Of every setting that a flag can say: what is served and where, then all others."""
    names = [name for name in Settings.model_fields if name not in FILE_ONLY]
    return tuple(sorted(names, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST)))


def _flag(name: str) -> inspect.Parameter:
    """A text option; `Settings` parses it, as it parses the environment."""
    field = Settings.model_fields[name]
    default = "" if field.default in (None, PydanticUndefined) else f"={_shown(field.default)}"
    option = typer.Option(
        flag_of(name),
        help=f"{field.description} [{PREFIX}{name.upper()}{default}]",
        metavar=_metavar(field.annotation),
        show_default=False,
        rich_help_panel="Settings",
    )
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[list[str] | None if name in SEVERAL else str | None, option],
    )


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    return value.human_readable() if isinstance(value, ByteSize) else str(value)


def _metavar(annotation: Any) -> str:
    """What a flag takes: one of some words, or a kind of value."""
    kinds = [annotation]
    while kinds:
        kind = kinds.pop(0)
        origin = get_origin(kind)
        if origin is Literal:
            return f"[{'|'.join(map(str, get_args(kind)))}]"
        if origin is Annotated:
            kinds.append(get_args(kind)[0])
        elif origin in (Union, UnionType):
            kinds += [each for each in get_args(kind) if each is not NoneType]
        elif (origin or kind) in METAVARS:
            return METAVARS[origin or kind]
    return "TEXT"
