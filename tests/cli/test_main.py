"""The command as a whole."""

from __future__ import annotations

import subprocess
import sys

from headrace import __version__

from .conftest import Headrace, command


def test_version(environment: dict[str, str]) -> None:
    done = subprocess.run(command("--version"), env=environment, capture_output=True, text=True)
    assert done.stdout == f"headrace {__version__}\n"


def test_help_lists_the_commands(headrace: Headrace) -> None:
    done = headrace("--help")
    assert done.returncode == 0
    for name in ("serve", "chat", "models", "keys", "usage", "config", "doctor", "bench"):
        assert name in done.stdout


def test_an_unknown_command_is_a_usage_error(headrace: Headrace) -> None:
    done = headrace("srve")
    assert done.returncode == 2
    assert "srve" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_imports_no_room(environment: dict[str, str]) -> None:
    """What is heavy loads when a command runs, so that `--help` and errors come at once."""
    heavy = "numpy tokenizers sqlalchemy alembic starlette httpx jinja2 huggingface_hub"
    script = (
        f"import sys, headrace.cli.main\nprint(sorted(set('{heavy}'.split()) & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
