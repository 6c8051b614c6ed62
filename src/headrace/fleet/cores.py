"""How many threads are worth computing with."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path


def usable_cores(system: Path = Path("/sys")) -> int:
    """Physical cores this process may run on, no more than its control group's quota.

    Threads beyond either only take turns. system: where sysfs is mounted; elsewhere than on
    Linux all logical processors count.
    """
    if sys.platform != "linux":
        return os.cpu_count() or 1
    cores = _physical(os.sched_getaffinity(0), system)
    quota = _quota(system)
    return cores if quota is None else max(1, min(cores, int(quota)))


def _physical(processors: Iterable[int], system: Path) -> int:
    """Processors that share a core name the same siblings; an unreadable one counts itself."""
    return len({_siblings(processor, system) for processor in processors})


def _siblings(processor: int, system: Path) -> str:
    topology = system / f"devices/system/cpu/cpu{processor}/topology"
    try:
        return (topology / "thread_siblings_list").read_text().strip()
    except OSError:
        return str(processor)


def _quota(system: Path) -> float | None:
    """Processors' worth of time that control groups (version 2) grant; None for no limit."""
    try:
        granted, period = (system / "fs/cgroup/cpu.max").read_text().split()
    except OSError:
        return None
    return None if granted == "max" else int(granted) / int(period)
