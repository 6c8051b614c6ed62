"""Commands that need the running service, against one."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.edge.admin.conftest import ROOT, Headquarters
from tests.edge.fakes import MODEL, until

Command = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest.fixture
async def command(hq: Headquarters, tmp_path: Path) -> AsyncIterator[Command]:
    """Run `headrace …` against the service: its exit status, what it printed and said."""
    async with hq.world.listening() as url:

        async def run(*arguments: str, key: str = ROOT.text) -> tuple[int, str, str]:
            kept = {n: v for n, v in os.environ.items() if not n.startswith("HEADRACE_")}
            environment = kept | {"HEADRACE_API_KEY": key, "HOME": str(tmp_path)}
            command = *arguments, "--url", url
            done = await asyncio.to_thread(forked.run, command, environment, tmp_path)
            return done.returncode, done.stdout, done.stderr

        yield run


async def said(running: Awaitable[tuple[int, str, str]]) -> Any:
    """The JSON of a command that succeeded."""
    status, out, error = await running
    assert status == 0, error
    return json.loads(out)


async def test_models_are_listed_unloaded_and_loaded(command: Command) -> None:
    (listed,) = await said(command("models", "ps", "--json"))
    assert (listed["name"], listed["state"]) == (MODEL, "ready")
    unloaded = await said(command("models", "unload", MODEL, "--close", "--grace=1", "--json"))
    assert (unloaded["state"], unloaded["closed"]) == ("unloaded", True)
    _, table, _ = await command("models", "ps")
    assert table.splitlines()[1].split()[:3] == [MODEL, "v1", "closed"]
    assert (await said(command("models", "load", f"{MODEL}@v1", "--json")))["closed"] is False
    status, _, error = await command("models", "load", "nope")
    assert (status, error.count("\n")) == (1, 1)
    assert "No model called 'nope' is served" in error


async def test_drain_waits_for_what_is_inside(hq: Headquarters, command: Command) -> None:
    world = hq.world
    await hq.ask("POST", "/tenants", 201, name="acme")
    key = (await hq.new_key())["key"]
    world.http.headers["authorization"] = f"Bearer {key}"
    world.supervisor.paused = True
    running = asyncio.create_task(world.chat(max_tokens=2))
    await until(lambda: world.supervisor.live == 1)
    status, _, error = await command("drain", "--wait=0.1")
    assert (status, "1 requests are still on their way" in error) == (1, True)
    assert (await world.chat()).status_code == 503
    draining = asyncio.create_task(said(command("drain", "--wait=30", "--json")))
    world.supervisor.paused = False
    assert (await draining)["requests"] == 0
    assert (await running).status_code == 200
    assert (await said(command("drain", "--undo", "--json")))["draining"] is False
    status, _, error = await command("drain", key=key)
    assert (status, "not allowed to administer" in error) == (1, True)
