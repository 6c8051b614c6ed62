"""The models that Headrace knows by name."""

from __future__ import annotations

import pytest

from headrace.models.dialects import DIALECTS
from headrace.models.entry import ModelEntry, known_models
from headrace.models.sources import HubSource, PypiSource


def test_the_default_model_is_the_first() -> None:
    assert next(iter(known_models())) == "smollm2-135m"


def test_there_are_twenty_models_from_a_third_of_a_billion_parameters_to_thirty() -> None:
    sizes = [entry.parameters or 0 for entry in known_models().values()]
    assert len([size for size in sizes if 3e8 <= size <= 3.1e10]) >= 20


@pytest.mark.parametrize("entry", known_models().values(), ids=known_models())
def test_an_entry_tells_all_that_people_choose_by(entry: ModelEntry) -> None:
    assert entry.description and entry.licence and entry.size and entry.parameters
    assert entry.context and entry.layers and entry.kv_heads and entry.head_size
    assert entry.sampling.temperature is not None
    assert entry.family in {dialect.architecture for dialect in DIALECTS.values()}


@pytest.mark.parametrize("entry", known_models().values(), ids=known_models())
def test_an_entry_has_a_hash_or_the_hub_has_one(entry: ModelEntry) -> None:
    assert entry.sha256 is None or len(bytes.fromhex(entry.sha256)) == 32
    for source in entry.sources:
        assert isinstance(source, HubSource | PypiSource)
        if isinstance(source, PypiSource):
            assert entry.sha256, "a mirror is of the same hash"
            assert all("==" in requirement for requirement in source.requirements)


def test_the_hub_comes_before_its_mirrors() -> None:
    for entry in known_models().values():
        kinds = [type(source) for source in entry.sources]
        assert kinds == sorted(kinds, key=[HubSource, PypiSource].index)
