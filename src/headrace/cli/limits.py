"""Flags for the limits of tenants and keys."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_type_hints

import typer

from headrace.access.limits import ABOUT, LARGEST, Limits
from headrace.cli.output import CommandError, plainly
from headrace.settings import Settings

NONE = "none"


def with_limits(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command, below `in_data_dir`, a flag for each limit. Its parameter `limits` receives
    those that were given, by their names in `Limits`; None is one to remove."""
    hints = get_type_hints(command, include_extras=True)
    own = inspect.signature(command).parameters.values()
    parameters = [p.replace(annotation=hints[p.name]) for p in own if p.name != "limits"]
    parameters += map(_flag, ABOUT)

    @functools.wraps(command)
    def run(settings: Settings, **arguments: Any) -> None:
        texts = {name: arguments.pop(name) for name in ABOUT}
        given = {name: _parsed(name, text) for name, text in texts.items() if text is not None}
        command(settings, limits=given, **arguments)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
    return run


def changed(limits: Limits, given: Mapping[str, object]) -> Limits:
    """The limits with those that were given. Raises CommandError: one is out of range."""
    from headrace.access.errors import AccessError

    with plainly(AccessError):
        return limits.changed(given)


def described(limits: Limits) -> dict[str, object]:
    """Those that there are, money in decimals."""
    from headrace.access.price import format_money

    given = limits.given()
    if limits.budget is not None:
        given["budget"] = format_money(limits.budget)
        given["budget_period"] = limits.budget_period
    return given


def _flag(name: str) -> inspect.Parameter:
    if name == "budget_period":
        what, metavar = f"{ABOUT[name].help}.", "day|month"
    else:
        what = f"{ABOUT[name].help}; {NONE}: no limit."
        metavar = "MONEY" if name == "budget" else "N"
    option = typer.Option(
        f"--{name.replace('_', '-')}", help=what, metavar=metavar, rich_help_panel="Limits"
    )
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=None, annotation=Annotated[str | None, option])


def _parsed(name: str, text: str) -> object:
    from headrace.access.errors import AccessError
    from headrace.access.price import format_money, parse_money

    if name == "budget_period":
        return text
    if text == NONE:
        return None
    option = f"--{name.replace('_', '-')}"
    if name == "budget":
        try:
            amount = parse_money(text)
        except AccessError as error:
            raise CommandError(f"{option}: {error}") from None
        if amount > LARGEST:
            raise CommandError(f"{option}: {text} is more than {format_money(LARGEST)}")
        return amount
    if not (text.isascii() and text.isdecimal()):
        raise CommandError(f"{option}: {text!r} is neither a whole number nor {NONE}")
    return int(text)
