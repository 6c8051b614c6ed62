"""A serving process for tests to kill: starts the toy worker, gives it endless work, and
prints the worker's process id."""

from __future__ import annotations

import asyncio
import sys

from conftest import TOY_COMMAND, request
from headrace.fleet.config import WorkerConfig
from headrace.fleet.supervisor import Supervisor


async def main() -> None:
    config = WorkerConfig(path="toy", model="toy", version="1")
    supervisor = Supervisor(config, command=TOY_COMMAND)
    await supervisor.start()
    ready = supervisor.status().ready
    assert ready is not None
    supervisor.submit(request("r", max_tokens=10**9, first_token=int(sys.argv[1])))
    print(ready.pid, file=sys.__stdout__, flush=True)
    await asyncio.sleep(3600)


if __name__ == "__main__":
    sys.stdout = sys.stderr  # structlog's default; the answer above has the pipe to itself
    asyncio.run(main())
