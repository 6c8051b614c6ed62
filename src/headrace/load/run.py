"""Run a workload against a server: `streams` requests in flight until all are done."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from headrace.load.client import Server, Timing, complete
from headrace.load.workload import Workload


async def run(
    workload: Workload,
    server: Server,
    ids: Sequence[int],
    *,
    seed: int | None = None,
    finished: Callable[[Timing], None] = lambda timing: None,
) -> list[Timing]:
    """Every request's timing. `ids`: token ids that prompts may use; `finished` is called
    after each request. Raises LoadError or OSError as soon as one request fails."""
    requests = iter(workload.drawn(ids, random.Random(seed)))
    timings: list[Timing] = []

    async def stream() -> None:
        for request in requests:
            timing = await complete(server, request)
            timings.append(timing)
            finished(timing)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(workload.streams):
                group.create_task(stream())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return timings
