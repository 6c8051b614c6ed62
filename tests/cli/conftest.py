"""Commands as processes, away from this machine's settings and models."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import forked

Headrace = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Variables for a command whose home is the test's own folder."""
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("HEADRACE_", "XDG_"))}
    source = str(Path(__file__).parents[2] / "src")
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    return kept | {"HOME": str(tmp_path), "PYTHONPATH": path, "COLUMNS": "100"}


@pytest.fixture
def headrace(environment: dict[str, str], tmp_path: Path) -> Headrace:
    """Run `headrace …` to its end in an empty folder."""

    def run(*arguments: str, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        return forked.run(arguments, environment | variables, tmp_path, stdin)

    return run


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "headrace.cli.main", *arguments]


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """The one line a failed command leaves on stderr."""
    assert done.returncode != 0, done
    assert done.stderr.startswith("headrace: "), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr.removeprefix("headrace: ").strip()
