"""A data directory has one service at a time, and no stale lock holds anybody up."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.store.errors import StoreError
from headrace.store.lock import only_service
from headrace.store.url import database_url

HOLD = (
    "import sys, time; from pathlib import Path\n"
    "from headrace.store.lock import only_service\n"
    "from headrace.store.url import database_url\n"
    "folder = Path(sys.argv[1])\n"
    "with only_service(folder, database_url(None, folder)):\n"
    "    print('held', flush=True); time.sleep(3600)\n"
)


def hold(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_service_is_told_who_is_there_and_a_kill_frees_the_lock(tmp_path: Path) -> None:
    url = database_url(None, tmp_path)
    other = hold(tmp_path)
    try:
        with pytest.raises(StoreError) as caught, only_service(tmp_path, url):
            pass
    finally:
        other.send_signal(signal.SIGKILL)
        other.wait()
    said = str(caught.value)
    assert re.search(rf"process {other.pid}, since \d{{4}}-\d\d-\d\dT", said), said
    assert str(tmp_path) in said
    for _ in range(2):
        with only_service(tmp_path, url):
            assert f"process {os.getpid()}," in (tmp_path / "lock").read_text()


def test_two_data_directories_do_not_share_an_sqlite_file(tmp_path: Path) -> None:
    url = database_url(f"sqlite:///{tmp_path}/common/x.db", tmp_path)
    with (
        only_service(tmp_path / "one", url),
        pytest.raises(StoreError, match=r"common/x\.db: process"),
        only_service(tmp_path / "two", url),
    ):
        pass


def test_two_data_directories_may_share_a_postgresql_database(tmp_path: Path) -> None:
    url = database_url("postgresql://nowhere/x", tmp_path)
    with only_service(tmp_path / "one", url), only_service(tmp_path / "two", url):
        pass


def test_the_lock_is_for_its_owner_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o277)
    try:
        with only_service(tmp_path, database_url(None, tmp_path)):
            assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)
