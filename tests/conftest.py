"""Fixtures for all rooms: databases, the real model and where public test data lies."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.store.fixtures import (  # noqa: F401
    database,
    empty_url,
    migrated_postgresql,
    migrated_sqlite,
    postgresql,
    postgresql_database,
    postgresql_url,
    sqlite,
    sqlite_url,
)

# Machines that run tests are shared: how long an example takes says nothing about the code.
settings.register_profile("shared-machine", deadline=None)
settings.load_profile("shared-machine")


def pytest_collection_finish() -> None:
    """What all tests import is large and stays: the collector need not look through it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def models_dir() -> Path:
    """Where tests keep downloaded models: the product's own place, so both share them."""
    from headrace.settings import Settings

    return Settings().models_dir


@pytest.fixture(scope="session")
def smollm2_path(models_dir: Path) -> Path:
    """The default model's GGUF, fetched by the product's own catalogue when absent."""
    return _fetched(models_dir, "smollm2-135m", "HEADRACE_TEST_SMOLLM2")


@pytest.fixture(scope="session")
def coder_path(models_dir: Path) -> Path:
    """A small model that knows how to call tools."""
    return _fetched(models_dir, "qwen2.5-coder-0.5b", "HEADRACE_TEST_CODER")


def _fetched(models_dir: Path, name: str, override: str) -> Path:
    if path := os.environ.get(override):
        return Path(path)
    from headrace.models.catalogue import Catalogue

    catalogue = Catalogue(models_dir)
    return (catalogue.installed(name) or catalogue.pull(name)).path


@pytest.fixture(scope="session")
def suites() -> Path:
    """Public test suites, which the project does not contain. Skips where they are absent."""
    default = Path(__file__).parents[1] / ".." / "shared" / "suites"
    path = Path(os.environ.get("HEADRACE_SUITES", default))
    if not path.is_dir():
        pytest.skip(f"no public suites at {path}")
    return path.resolve()
