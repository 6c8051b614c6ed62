"""How to install what only some installations need."""

from __future__ import annotations

import sys


def how_to_install(extra: str) -> str:
    """The command that adds an optional part to this installation, to run where Headrace's source
    lies. extra: a name of `project.optional-dependencies` in pyproject.toml."""
    return f"{sys.executable} -m pip install -e '.[{extra}]'"
