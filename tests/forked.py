"""Runs a command as a process that need not first import what commands import, most of a second:
forked from one that has. In all else it is a process like any other."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import alembic.command  # noqa: F401
import httpx  # noqa: F401
import rich.console  # noqa: F401

import headrace.access.keys
import headrace.access.tenants
import headrace.ledger.usage
import headrace.models.catalogue
import headrace.store.database  # noqa: F401
from headrace.cli.main import main

STREAMS = ("stdin", "stdout", "stderr")


def run(
    arguments: tuple[str, ...], environment: dict[str, str], cwd: Path, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """What `subprocess.run` would give."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with TemporaryDirectory() as folder:
        streams = {name: Path(folder) / name for name in STREAMS}
        streams["stdin"].write_text(stdin)
        child = context.Process(target=_command, args=(arguments, environment, cwd, streams))
        child.start()
        child.join()
        said = [path.read_text() if path.exists() else "" for path in list(streams.values())[1:]]
    assert child.exitcode is not None  # it has ended
    return subprocess.CompletedProcess(arguments, child.exitcode, *said)


def _command(
    arguments: tuple[str, ...], environment: dict[str, str], cwd: Path, streams: dict[str, Path]
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    for number, (name, path) in enumerate(streams.items()):
        stream = path.open("w" if number else "r")
        os.dup2(stream.fileno(), number)
        setattr(sys, name, stream)
    sys.argv = ["headrace", *arguments]
    main()
