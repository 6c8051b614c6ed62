"""What a worker process does when signals come and when its parent goes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from headrace.fleet.process import environment
from headrace.fleet.supervisor import Supervisor

from .conftest import MakeSupervisor, read_all, request
from .fake_worker import HANG


@pytest.mark.parametrize("first_token", [1, HANG])
def test_a_killed_parent_leaves_no_orphan_and_no_file(tmp_path: Path, first_token: int) -> None:
    script = Path(__file__).with_name("doomed_parent.py")
    parent = subprocess.Popen(
        [sys.executable, str(script), str(first_token)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    with parent.stdout:
        worker = int(parent.stdout.readline())
    assert Path(f"/proc/{worker}").exists()
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 60
    while Path(f"/proc/{worker}").exists():
        assert time.monotonic() < deadline, "the worker outlived its parent"
        time.sleep(0.02)
    assert list(tmp_path.iterdir()) == []


async def test_signals_to_the_group_are_left_to_the_parent(make_supervisor: MakeSupervisor) -> None:
    supervisor: Supervisor = make_supervisor()
    await supervisor.start()
    ready = supervisor.status().ready
    assert ready is not None
    os.kill(ready.pid, signal.SIGINT)
    os.kill(ready.pid, signal.SIGTERM)
    assert (await read_all(supervisor.submit(request("r"))))[-1].finish is not None
    assert supervisor.status().starts == 1


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


async def test_the_worker_has_a_name(make_supervisor: MakeSupervisor) -> None:
    supervisor = make_supervisor()
    await supervisor.start()
    ready = supervisor.status().ready
    assert ready is not None
    assert name_of(ready.pid) == "headrace-engine"


def test_a_worker_started_without_a_parent_ends() -> None:
    script = Path(__file__).with_name("fake_worker.py")
    ended = subprocess.run([sys.executable, str(script)], stdin=subprocess.DEVNULL, timeout=60)
    assert ended.returncode == 0


def test_a_worker_gets_no_secret() -> None:
    secrets = {
        "HEADRACE_BOOTSTRAP_KEY": "hr-a_b",
        "HEADRACE_API_KEY": "hr-c_d",
        "HEADRACE_DATABASE_URL": "postgresql://user:word@host/name",
        "HEADRACE_VALKEY_URL": "valkey://:word@host",
        "AWS_SECRET_ACCESS_KEY": "x",
        "HF_TOKEN": "x",
    }
    needed = {"PATH": "/bin", "HOME": "/root", "LC_ALL": "C", "PYTHONPATH": "src"}
    assert environment(secrets | needed) == needed


def test_what_libraries_log_is_json_too() -> None:
    program = """
        import asyncio, logging, warnings
        from headrace.fleet.process import configure_log

        configure_log("info")
        logging.getLogger("a.package").warning("a %s", "word")
        logging.getLogger("a.package").info("not told")
        warnings.warn("old", DeprecationWarning)
        warnings.warn("strange", RuntimeWarning)

        async def main():
            loop = asyncio.get_running_loop()
            loop.call_soon(lambda: 1 / 0)
            await asyncio.sleep(0.01)

        asyncio.run(main())
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    events = [json.loads(line) for line in done.stderr.splitlines()]
    told = [(event["logger"], event["level"]) for event in events]
    assert ("a.package", "warning") in told
    assert ("py.warnings", "warning") in told
    assert ("asyncio", "error") in told
    assert any("ZeroDivisionError" in event.get("exception", "") for event in events)
