"""A file joined from parts: what is kept of an earlier attempt, and what is not believed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.models.partial import PartialFile

PARTS = {"a": b"first part", "b": b"", "c": b"the third part, which is longer", "d": b"end"}
WHOLE = b"".join(PARTS.values())


def ignore(*_: object) -> None:
    pass


def complete(folder: Path) -> int:
    """Bring the file to its end; how many parts an earlier attempt had left."""
    partial = PartialFile(folder)
    done = partial.resume(list(PARTS), ignore)
    for name in list(PARTS)[done:]:
        partial.append(name, [PARTS[name]], ignore)
    assert partial.path.read_bytes() == WHOLE
    assert partial.sha256 == hashlib.sha256(WHOLE).hexdigest()
    return done


def interrupted(folder: Path, parts: int) -> PartialFile:
    partial = PartialFile(folder)
    for name in list(PARTS)[:parts]:
        partial.append(name, [PARTS[name]], ignore)
    return partial


@pytest.mark.parametrize("parts", range(len(PARTS) + 1))
def test_whole_parts_are_kept(tmp_path: Path, parts: int) -> None:
    interrupted(tmp_path, parts)
    assert complete(tmp_path) == parts


def test_a_part_that_broke_off_starts_again(tmp_path: Path) -> None:
    def breaks_off() -> object:
        yield PARTS["c"][:5]
        raise KeyboardInterrupt

    partial = interrupted(tmp_path, 2)
    with pytest.raises(KeyboardInterrupt):
        partial.append("c", breaks_off(), ignore)  # type: ignore[arg-type]
    assert complete(tmp_path) == 2


def test_other_parts_than_before_are_not_mixed_in(tmp_path: Path) -> None:
    interrupted(tmp_path, 3)
    partial = PartialFile(tmp_path)
    assert partial.resume(["a", "other"], ignore) == 1
    assert partial.path.read_bytes() == PARTS["a"]


@settings(max_examples=50, deadline=None)
@given(
    parts=st.integers(0, len(PARTS)),
    damage=st.lists(
        st.tuples(st.sampled_from(["joined", "journal.json"]), st.integers(0, 300), st.binary()),
        max_size=3,
    ),
)
def test_no_damage_to_what_was_left_reaches_the_result(
    parts: int, damage: list[tuple[str, int, bytes]]
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        interrupted(folder, parts)
        for file, at, tail in damage:
            path = folder / file
            old = path.read_bytes() if path.exists() else b""
            path.write_bytes(old[:at] + tail)
        complete(folder)


def test_progress_counts_the_bytes_of_the_whole_file(tmp_path: Path) -> None:
    seen: list[int] = []
    partial = PartialFile(tmp_path)
    for name, data in PARTS.items():
        partial.append(name, [data[:4], data[4:]], seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == len(WHOLE)
    seen.clear()
    PartialFile(tmp_path).resume(list(PARTS), seen.append)
    assert seen[-1] == len(WHOLE)


def test_the_journal_is_plain_json(tmp_path: Path) -> None:
    interrupted(tmp_path, 1)
    (entry,) = json.loads((tmp_path / "journal.json").read_text())
    digest = hashlib.sha256(PARTS["a"]).hexdigest()
    assert entry == {"name": "a", "end": len(PARTS["a"]), "sha256": digest}
