"""Files that are made once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from headrace.store.database import Database
from headrace.store.errors import StoreError
from headrace.store.files import make_pepper, make_private_folder, read_edge
from headrace.store.url import database_url

both = pytest.mark.parametrize("read", [make_pepper, read_edge])
Read = Callable[[Path], object]


@both
def test_it_is_made_once_and_then_stays(read: Read, tmp_path: Path) -> None:
    first = read(tmp_path / "new")
    assert read(tmp_path / "new") == first
    assert read(tmp_path / "other") != first


@both
def test_it_is_for_its_owner_only_and_leaves_no_draft(read: Read, tmp_path: Path) -> None:
    read(tmp_path)
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


@both
def test_all_who_come_at_once_read_the_same(read: Read, tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(read, [tmp_path] * 32))) == 1


@both
@pytest.mark.parametrize("content", [b"", b"what?", b"abcd", b"\xb3" * 32])
def test_a_damaged_one_is_never_replaced(read: Read, content: bytes, tmp_path: Path) -> None:
    read(tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(content)
    with pytest.raises(StoreError, match=rf"{file.name} is damaged"):
        read(tmp_path)
    assert file.read_bytes() == content


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_the_database_is_for_its_owner_whatever_the_umask(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    make_private_folder(folder)
    database = Database.open(database_url(None, folder))
    with database.transaction():
        modes = {path.name: mode(path) for path in folder.iterdir()}
    database.close()
    assert mode(folder) == 0o700
    assert modes == dict.fromkeys(("headrace.db", "headrace.db-wal", "headrace.db-shm"), 0o600)


def test_modes_of_an_older_installation_are_repaired_with_a_line_in_the_log(tmp_path: Path) -> None:
    url = database_url(None, tmp_path / "data")
    first = Database.open(url)
    with first.transaction():
        for path in (tmp_path / "data").iterdir():
            path.chmod(0o644)
        with capture_logs() as logs:
            make_private_folder(tmp_path / "data")
            Database.open(url).close()
        assert {mode(path) for path in (tmp_path / "data").iterdir()} == {0o600}
    first.close()
    repaired = [entry for entry in logs if entry["event"] == "mode_repaired"]
    assert {Path(entry["path"]).name for entry in repaired} >= {"headrace.db", "headrace.db-wal"}
    assert {(entry["before"], entry["after"]) for entry in repaired} == {("0644", "0600")}


def test_a_folder_that_all_users_share_is_refused_and_left_alone(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    with pytest.raises(StoreError, match="all users share"):
        make_private_folder(shared)
    assert shared.stat().st_mode & 0o7777 == 0o1777
