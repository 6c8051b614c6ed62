"""What commands need to know of this machine."""

from __future__ import annotations

import os
from pathlib import Path


def free_memory() -> int:
    """Bytes that processes here may still take: the machine's, or less where a control group
    (version 2) says so."""
    free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        free = int(fields["MemAvailable"].split()[0]) * 1024
    group = Path("/sys/fs/cgroup")
    try:
        limit = int((group / "memory.max").read_text())  # "max" where there is none
        return min(free, limit - int((group / "memory.current").read_text()))
    except (OSError, ValueError):
        return free
