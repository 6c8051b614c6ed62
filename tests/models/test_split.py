"""Models that are split over several GGUF files: read whole, or refused by the file at fault."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from headrace.models.catalogue import Catalogue
from headrace.models.errors import CatalogueError, ModelFileError
from headrace.models.files import model_files
from headrace.models.model import open_model
from headrace.models.sources import parse_source
from headrace.models.split import part_names, stem_of
from headrace.ops.weights import DenseWeight
from tests.models.tiny import VOCAB, WIDTH, write_tiny

UNTIED = {"output.weight": (VOCAB, WIDTH)}
PART = "m-0000{}-of-00003.gguf"


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    """A model in three files."""
    first = write_tiny(tmp_path / "m.gguf", "llama", extra=UNTIED, tensors_in_part=8)
    paths = [tmp_path / PART.format(number) for number in (1, 2, 3)]
    assert first == paths[0]
    assert sorted(tmp_path.iterdir()) == paths
    return paths


def test_any_part_opens_the_whole_model(tmp_path: Path, parts: list[Path]) -> None:
    whole = open_model(write_tiny(tmp_path / "whole.gguf", "llama", extra=UNTIED))
    for part in parts:
        model = open_model(part)
        assert model.program == whole.program
        for name in whole.tensors:
            ours, theirs = model.weights.load(name), whole.weights.load(name)
            assert isinstance(ours, DenseWeight)
            assert isinstance(theirs, DenseWeight)
            np.testing.assert_array_equal(ours.values, theirs.values)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_gg_10_a_missing_part_is_named(parts: list[Path], number: int) -> None:
    parts[number - 1].unlink()
    named = f"{PART.format(number)}: is missing: part {number} of 3"
    for part in parts:
        with pytest.raises(ModelFileError, match=named):
            open_model(part)


def test_gg_10_parts_that_were_joined_are_refused(tmp_path: Path, parts: list[Path]) -> None:
    joined = b"".join(part.read_bytes() for part in parts)
    (tmp_path / "joined.gguf").write_bytes(joined)
    with pytest.raises(ModelFileError, match=r"says that it is part 1 of 3.*are not joined"):
        open_model(tmp_path / "joined.gguf")
    parts[0].write_bytes(joined)
    with pytest.raises(ModelFileError, match=r"behind its last tensor.*are not joined"):
        open_model(parts[0])


def test_gg_10_a_first_part_that_lacks_only_the_output_is_no_tied_model(tmp_path: Path) -> None:
    count = len(open_model(write_tiny(tmp_path / "w.gguf", "llama", extra=UNTIED)).tensors)
    first = write_tiny(tmp_path / "m.gguf", "llama", extra=UNTIED, tensors_in_part=count - 1)
    second = first.with_name("m-00002-of-00002.gguf")
    assert open_model(first).program == open_model(tmp_path / "w.gguf").program
    second.unlink()
    with pytest.raises(ModelFileError, match=r"m-00002-of-00002\.gguf: is missing"):
        open_model(first)
    with pytest.raises(ModelFileError, match="says that it is part 1 of 2"):
        open_model(first.rename(tmp_path / "renamed.gguf"))


def test_gg_10_another_number_of_tensors_is_refused(parts: list[Path]) -> None:
    key = b"split.tensors.count"
    data = bytearray(parts[1].read_bytes())
    at = data.index(key) + len(key) + 4
    data[at] += 1
    parts[1].write_bytes(data)
    with pytest.raises(ModelFileError, match=r"key 'split\.tensors\.count' is \d+, not \d+"):
        open_model(parts[0])
    for part in (parts[0], parts[2]):
        other = bytearray(part.read_bytes())
        other[other.index(key) + len(key) + 4] += 1
        part.write_bytes(other)
    with pytest.raises(ModelFileError, match=r"but there are 21 tensors"):
        open_model(parts[0])


def test_a_part_with_another_number_is_refused(parts: list[Path]) -> None:
    shutil.copy(parts[1], parts[2])
    with pytest.raises(ModelFileError, match="part 2 of 3, and its name that it is part 3 of 3"):
        open_model(parts[0])


def test_a_part_of_another_model_is_refused(tmp_path: Path, parts: list[Path]) -> None:
    (tmp_path / "other").mkdir()
    keys = {"general.name": "other"}
    other = write_tiny(
        tmp_path / "other" / "m.gguf", "llama", extra=UNTIED, metadata=keys, tensors_in_part=7
    )
    shutil.copy(other.with_name(parts[1].name), parts[1])
    with pytest.raises(ModelFileError, match=r"m-00002.*: tensor '.*' is in m-00001\S* already"):
        open_model(parts[0])


def test_a_whole_file_with_a_parts_name_is_refused(tmp_path: Path, parts: list[Path]) -> None:
    whole = write_tiny(tmp_path / "whole.gguf", "llama")
    for part in parts:
        shutil.copy(whole, part)
    with pytest.raises(ModelFileError, match="says that it is whole"):
        open_model(parts[0])


@pytest.mark.parametrize(
    ("name", "count", "stem"),
    [
        ("a-00002-of-00003.gguf", 3, "a"),
        ("a-00001-of-00001.gguf", 1, "a"),
        ("a-00004-of-00003.gguf", 1, "a"),
        ("a-1-of-3.gguf", 1, "a-1-of-3"),
        ("a.gguf", 1, "a"),
    ],
)
def test_names_of_parts(name: str, count: int, stem: str) -> None:
    assert len(part_names(name)) == count
    assert name in part_names(name)
    assert stem_of(name) == stem


def test_a_folder_with_one_split_model_is_that_model(tmp_path: Path, parts: list[Path]) -> None:
    source = parse_source(f"{tmp_path}")
    assert source.stem == tmp_path.name
    catalogue = Catalogue(tmp_path / "models")
    versions = [catalogue.pull(str(path)) for path in (tmp_path, *parts)]
    assert {version.path for version in versions} == {parts[0]}
    assert {version.sha256 for version in versions} == {versions[0].sha256}
    assert versions[0].size == sum(part.stat().st_size for part in parts)
    assert model_files(parts[2]) == parts


def test_a_change_in_any_part_is_noticed(tmp_path: Path, parts: list[Path]) -> None:
    catalogue = Catalogue(tmp_path / "models")
    catalogue.add("split", str(parts[1]))
    first = catalogue.pull("split")
    assert catalogue.verify("split") == first
    data = bytearray(parts[2].read_bytes())
    data[-1] ^= 1
    parts[2].write_bytes(data)
    assert catalogue.installed("split") is None
    assert catalogue.pull("split").version != first.version
    parts[2].unlink()
    with pytest.raises(CatalogueError, match=r"m-00003-of-00003\.gguf"):
        catalogue.pull("split")
