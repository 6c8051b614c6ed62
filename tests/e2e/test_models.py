"""Several models from one `headrace serve`: side by side, on demand, by version."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.models.catalogue import Catalogue
from headrace.models.version import ModelVersion

from .conftest import Service, headrace, start, stop

TENANT = "default"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def versions(folder: Path, smollm2_path: Path) -> tuple[ModelVersion, ModelVersion]:
    """Two versions of a model called small, the later one its default: the same file, in which
    one letter of the metadata differs."""
    catalogue = Catalogue(folder / "catalogue")
    old, new = folder / "old.gguf", folder / "new.gguf"
    for path in (old, new):
        shutil.copy(smollm2_path, path)
    with new.open("r+b") as file:
        at = file.read(1 << 20).index(b"general.name") + 5
        file.seek(at)
        file.write(b"-")  # "gener-l.name", which nobody reads
    catalogue.add("small", str(old))
    first = catalogue.pull("small")
    catalogue.add("small", str(new), replace=True)
    return first, catalogue.pull("small")


@pytest.fixture(scope="module")
def both(
    versions: tuple[ModelVersion, ModelVersion], folder: Path, coder_path: Path
) -> Iterator[Service]:
    """With the small model at the start, and a larger one on demand, unloaded after a second."""
    Catalogue(folder / "catalogue").add("coder", str(coder_path))
    settings = folder / "headrace.toml"
    settings.write_text(
        f"model = 'small'\nmodels_dir = '{folder / 'catalogue'}'\nkv_memory = '64MiB'\n"
        "max_sequences = 8\n[models.small]\ntier = 'small'\n"
        "[models.coder]\ntier = 'medium'\nload = 'demand'\nidle_unload = 1\n"
    )
    data = folder / "data"
    data.mkdir()
    running = start(None, data, "--config", str(settings))
    yield running
    stop(running)


def ask(service: Service, model: str, **fields: Any) -> httpx.Response:
    body = {"model": model, "prompt": "The sea is", "max_tokens": 4, "temperature": 0, **fields}
    with service.http() as http:
        return http.post("/v1/completions", json=body)


def route(service: Service, model: str) -> str:
    response = ask(service, model)
    assert response.status_code == 200, response.text
    way: str = response.headers["x-headrace-route"]
    return way


def told(service: Service) -> dict[str, str]:
    """States by name and version."""
    models = service.engine()["models"]
    return {f"{model['name']}@{model['version']}": model["state"] for model in models}


def wait_for(condition: Any, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_both_answer_and_the_one_on_demand_comes_and_goes(
    both: Service, versions: tuple[ModelVersion, ModelVersion]
) -> None:
    coder = next(name for name in told(both) if name.startswith("coder@"))
    small = f"small@{versions[1].version}"
    assert told(both) == {small: "ready", coder: "unloaded"}
    assert len(both.children()) == 1
    assert route(both, "small") == f"small -> {small}"
    first = ask(both, "medium")
    assert first.headers["x-headrace-route"] == f"medium -> {coder}"
    assert (first.json()["model"], len(both.children())) == ("coder", 2)
    wait_for(lambda: told(both)[coder] == "unloaded")
    assert len(both.children()) == 1
    with both.http() as http:
        names = [card["id"] for card in http.get("/v1/models").json()["data"]]
    assert names == ["small", "coder"]
    assert ask(both, "large").status_code == 404


def test_aliases_and_pins_act_at_once_and_the_last_pin_takes_its_version_along(
    both: Service, versions: tuple[ModelVersion, ModelVersion], folder: Path
) -> None:
    old, new = (f"small@{version.version}" for version in versions)
    assert ask(both, old).status_code == 404
    both.command("aliases", "set", "fast", "small", "--tenant", TENANT)
    both.command("pins", "set", "small", versions[0].version, "--tenant", TENANT, "--force")
    wait_for(lambda: old in told(both))
    wait_for(lambda: route(both, "fast") == f"alias fast -> small (pin) -> {old}")
    assert route(both, new) == new
    assert told(both)[old] == told(both)[new] == "ready"
    both.command("pins", "remove", "small", "--tenant", TENANT)
    wait_for(lambda: old not in told(both))
    wait_for(lambda: route(both, "fast") == f"alias fast -> small -> {new}")
    wait_for(lambda: len(both.children()) <= 2)
    catalogue = folder / "catalogue"
    headrace("models", "prune", data_dir=both.data_dir, HEADRACE_MODELS_DIR=str(catalogue))
    kept = Catalogue(catalogue).versions("small")
    assert [version.version for version in kept] == [versions[1].version]


def test_models_that_do_not_fit_the_memory_are_named_before_any_is_loaded(
    smollm2_path: Path, coder_path: Path, tmp_path: Path
) -> None:
    models = []
    for name, path in (("small", smollm2_path), ("coder", coder_path)):
        (tmp_path / f"{name}.gguf").symlink_to(path)  # installed files may have one name
        models += ["--model", str(tmp_path / f"{name}.gguf")]
    done = headrace(
        "serve", "--port", "0", "--memory", "700MiB", *models, data_dir=tmp_path, check=False
    )
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert "memory is 700 MiB, but the models need" in last
    assert "worker_started" not in done.stderr
