"""The real default model, for the tests that ask for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.models.model import Model, open_model
from headrace.text.tokenizer import Tokenizer


@pytest.fixture(scope="session")
def model(smollm2_path: Path) -> Model:
    return open_model(smollm2_path)


@pytest.fixture(scope="session")
def tokenizer(model: Model) -> Tokenizer:
    return Tokenizer.from_gguf(model.metadata)
