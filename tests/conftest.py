"""Fixtures for all rooms: the real model and where public test data lies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Machines that run tests are shared: how long an example takes says nothing about the code.
settings.register_profile("shared-machine", deadline=None)
settings.load_profile("shared-machine")


@pytest.fixture(scope="session")
def models_dir() -> Path:
    """Where tests keep downloaded models: the product's own place, so both share them."""
    from headrace.settings import Settings

    return Settings().models_dir


@pytest.fixture(scope="session")
def smollm2_path(models_dir: Path) -> Path:
    """The default model's GGUF, fetched by the product's own catalogue when absent."""
    if override := os.environ.get("HEADRACE_TEST_SMOLLM2"):
        return Path(override)
    from headrace.models.catalogue import Catalogue

    catalogue = Catalogue(models_dir)
    version = catalogue.installed("smollm2-135m") or catalogue.pull("smollm2-135m")
    return version.path


@pytest.fixture(scope="session")
def suites() -> Path:
    """Public test suites, which the project does not contain. Skips where they are absent."""
    default = Path(__file__).parents[1] / ".." / "shared" / "suites"
    path = Path(os.environ.get("HEADRACE_SUITES", default))
    if not path.is_dir():
        pytest.skip(f"no public suites at {path}")
    return path.resolve()
