"""`headrace config`: what is in force, and who said so."""

from __future__ import annotations

import re

from pydantic import BaseModel, ByteSize, SecretStr

from headrace.cli.flags import with_settings
from headrace.cli.output import JsonFlag, print_rows
from headrace.settings import Settings


@with_settings()
def config(settings: Settings, as_json: JsonFlag = False) -> None:
    """Print the settings in force and where each value came from."""
    rows = [
        {"setting": name, "value": _shown(value, as_json), "origin": settings.origin(name)}
        for name, value in settings
    ]
    print_rows(rows, as_json=as_json)


def _table(value: object) -> object:
    """A table as it was written."""
    return value.model_dump(exclude_none=True) if isinstance(value, BaseModel) else value


def _shown(value: object, as_json: bool) -> object:
    """The value without what is secret in it; sizes in words for people."""
    if isinstance(value, SecretStr):
        return f"{value.get_secret_value().partition('_')[0]}_****"
    if isinstance(value, ByteSize) and not as_json:
        return value.human_readable()
    if isinstance(value, dict):
        return {name: _table(each) for name, each in value.items()}
    if isinstance(value, str):
        return re.sub(r"(://[^:/@]*:)[^@]*@", r"\1****@", value)
    return value
