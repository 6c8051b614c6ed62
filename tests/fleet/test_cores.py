from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.fleet.cores import usable_cores


@pytest.fixture
def four_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two cores with two threads each, all of which we may use."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    for processor, siblings in enumerate(["0,2", "1,3", "0,2", "1,3"]):
        topology = tmp_path / f"devices/system/cpu/cpu{processor}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(siblings + "\n")
    (tmp_path / "fs/cgroup").mkdir(parents=True)
    return tmp_path


def test_threads_of_one_core_count_once(four_processors: Path) -> None:
    assert usable_cores(four_processors) == 2


def test_only_cores_we_may_run_on_count(
    four_processors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 3})
    assert usable_cores(four_processors) == 1


@pytest.mark.parametrize(
    ("quota", "cores"), [("max", 2), ("150000", 1), ("400000", 2), ("20000", 1)]
)
def test_a_quota_is_respected(four_processors: Path, quota: str, cores: int) -> None:
    (four_processors / "fs/cgroup/cpu.max").write_text(f"{quota} 100000\n")
    assert usable_cores(four_processors) == cores


def test_without_a_topology_every_processor_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})
    assert usable_cores(tmp_path) == 3
