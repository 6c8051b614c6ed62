"""Sources: what the text of one means."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.models.errors import CatalogueError
from headrace.models.sources import HubSource, LocalSource, PypiSource, is_source, parse_source


def test_packages_are_joined_in_the_order_given() -> None:
    source = parse_source("pypi:b==1.0, a ,c-{9..11}==2")
    assert isinstance(source, PypiSource)
    assert source.requirements == ("b==1.0", "a", "c-9==2", "c-10==2", "c-11==2")


@pytest.mark.parametrize(
    "text",
    ["pypi:", "pypi:a,,b", "pypi:--index-url=x", "pypi:a>=1", "pypi:a==1 ; x", "pypi:a{3..1}"],
)
def test_what_pip_would_take_for_something_else_is_refused(text: str) -> None:
    with pytest.raises(CatalogueError, match="is not PACKAGE or PACKAGE==VERSION"):
        parse_source(text)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("hf:o/r/f.gguf", HubSource("o/r", "f.gguf")),
        ("hf:o/r/sub/f.gguf@v1.0", HubSource("o/r", "sub/f.gguf", "v1.0")),
        ("hf:o/r", HubSource("o/r")),
        ("hf:o/r@v1", HubSource("o/r", None, "v1")),
        ("hf:o-1/r_2.x/f Q4.gguf@refs/pr/1", HubSource("o-1/r_2.x", "f Q4.gguf", "refs/pr/1")),
    ],
)
def test_files_of_the_hub(text: str, source: HubSource) -> None:
    assert parse_source(text) == source
    assert str(source) == text


@pytest.mark.parametrize("text", ["hf:", "hf:f.gguf", "hf:o/r/../../f", "hf:o/r/f@", "hf:o/r@"])
def test_sources_of_the_hub_need_owner_and_repository(text: str) -> None:
    with pytest.raises(CatalogueError, match=r"OWNER/REPOSITORY\[/FILE\]"):
        parse_source(text)


def test_a_path_is_a_file_or_a_folder_with_one_model(tmp_path: Path) -> None:
    source = parse_source(str(tmp_path))
    assert isinstance(source, LocalSource)
    with pytest.raises(CatalogueError, match=r"one \.gguf file, not none"):
        source.file()
    (tmp_path / "a.gguf").touch()
    (tmp_path / "tokenizer.json").touch()
    assert source.file() == tmp_path / "a.gguf"
    (tmp_path / "b.gguf").touch()
    with pytest.raises(CatalogueError, match=r"not a\.gguf, b\.gguf"):
        source.file()
    with pytest.raises(CatalogueError, match="no such file"):
        LocalSource(tmp_path / "gone.gguf").file()


def test_a_folder_with_a_config_is_a_checkpoint_unless_it_has_a_gguf_file(tmp_path: Path) -> None:
    (tmp_path / "config.json").touch()
    source = LocalSource(tmp_path)
    assert source.file() == tmp_path
    (tmp_path / "a.gguf").touch()
    assert source.file() == tmp_path / "a.gguf"


@pytest.mark.parametrize("text", ["pypi:a", "hf:o/r/f", "./m", "~/m", "/m", "d/m", "m.gguf"])
def test_sources_are_told_from_names(text: str) -> None:
    assert is_source(text)
    assert not is_source("smollm2-135m")
    assert not is_source("qwen2.5-coder-0.5b")
