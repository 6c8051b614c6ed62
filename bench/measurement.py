"""One measurement: a server started anew, warmed up, and loaded."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from engines.engine import Engine
from headrace.load.client import Refused
from headrace.load.report import Report, summarise
from headrace.load.run import run
from headrace.load.workload import Workload

PROMPT_IDS = range(1000, 40000)
WARM_PROMPT, WARM_OUTPUT = 512, 8


def measure(engine: Engine, gguf: Path, workload: Workload) -> Report | None:
    """None if the engine refuses to answer by a schema.

    Raises LoadError if it fails otherwise, RuntimeError if it does not start.
    """
    with engine.serve(gguf, workload) as server:
        try:
            asyncio.run(run(warm_up(workload), server, PROMPT_IDS))
            return summarise(asyncio.run(run(workload, server, PROMPT_IDS)))
        except Refused:
            if workload.schema is None:
                raise
            return None


def warm_up(workload: Workload) -> Workload:
    """As many requests at once as the workload has, but short: engines that compile or choose
    kernels by shape have done so before the clock runs."""
    return msgspec.structs.replace(
        workload,
        requests=workload.streams,
        prompt=min(workload.prompt, WARM_PROMPT),
        output=min(workload.output, WARM_OUTPUT),
    )
