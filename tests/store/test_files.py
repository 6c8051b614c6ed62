"""Files that are made once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.store.errors import StoreError
from headrace.store.files import read_edge, read_pepper

both = pytest.mark.parametrize("read", [read_pepper, read_edge])
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
@pytest.mark.parametrize("text", ["", "what?", "abcd"])
def test_a_damaged_one_is_never_replaced(read: Read, text: str, tmp_path: Path) -> None:
    read(tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_text(text)
    with pytest.raises(StoreError, match=rf"{file.name} is damaged"):
        read(tmp_path)
    assert file.read_text() == text
