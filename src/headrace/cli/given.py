"""Values that commands are given: an empty one is an error, whatever it is for."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup, TyperOption

from headrace.cli.output import CommandError


class Commands(TyperGroup):
    """The root of the commands. Each command refuses an empty option or argument.

    `--expires "$EXPIRES"` in a script whose variable is not set must not make a key that never
    expires.
    """

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            refuse_empty(command)
        return command


def refuse_empty(command: Any) -> None:
    """Make a command of typer's, and those below it, raise CommandError for an empty value. The
    error names the option or argument."""
    for parameter in command.params:
        _refuse_empty_of(parameter)
    if isinstance(command, TyperGroup):
        for below in command.commands.values():
            refuse_empty(below)


def _refuse_empty_of(parameter: Any) -> None:
    convert = parameter.process_value

    def checked(ctx: Any, value: Any) -> Any:
        values = value if isinstance(value, list | tuple) else [value]
        if any(isinstance(each, str) and not each.strip() for each in values):
            is_option = isinstance(parameter, TyperOption)
            shown = parameter.opts[0] if is_option else str(parameter.name).upper()
            raise CommandError(f"{shown}: an empty value; leave it out if none is meant")
        return convert(ctx, value)

    parameter.process_value = checked
