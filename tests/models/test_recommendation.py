"""Which models fit a machine, and how fast they would be."""

from __future__ import annotations

import pytest

from headrace.models.entry import ModelEntry, known_models
from headrace.models.recommendation import Machine, memory_needed, recommend

GIB = 1 << 30
MACHINE = Machine(memory=8 * GIB, bytes_per_second=20e9, products_per_second=500e9)


def entry(name: str, parameters: float, size: float, **fields: object) -> ModelEntry:
    kv = {"layers": 10, "kv_heads": 2, "head_size": 64}
    return ModelEntry(
        name=name,
        source="hf:o/r/f.gguf",
        parameters=int(parameters),
        size=int(size),
        **(kv | fields),  # type: ignore[arg-type]
    )


def test_what_fits_comes_first_and_the_largest_of_it_before_all() -> None:
    entries = [entry("small", 1e9, 0.6e9), entry("huge", 70e9, 40e9), entry("large", 8e9, 5e9)]
    found = recommend(entries, MACHINE, 4096)
    assert [each.entry.name for each in found] == ["large", "small", "huge"]
    assert [each.fits for each in found] == [True, True, False]


def test_the_cache_of_a_long_context_counts() -> None:
    wide = entry("wide", 1e9, 0.6e9, layers=80, kv_heads=8, head_size=128, context=1 << 20)
    (short,), (long,) = (recommend([wide], MACHINE, context) for context in (1024, 1 << 20))
    assert short.fits
    assert not long.fits


def test_the_context_is_at_most_the_models_own() -> None:
    (found,) = recommend([entry("m", 1e9, 0.6e9, context=2048)], MACHINE, 8192)
    assert found.context == 2048


def test_a_mixture_reads_its_active_part_alone() -> None:
    dense = entry("dense", 30e9, 18e9)
    mixture = entry("mixture", 30e9, 18e9, active_parameters=3_000_000_000)
    by_name = {each.entry.name: each for each in recommend([dense, mixture], MACHINE, 4096)}
    assert by_name["mixture"].tokens_per_second == pytest.approx(
        10 * by_name["dense"].tokens_per_second
    )
    assert by_name["mixture"].memory == by_name["dense"].memory


def test_checkpoints_in_floats_are_to_be_quantised() -> None:
    (found,) = recommend([entry("floats", 1e9, 2e9)], MACHINE, 4096)
    assert found.quantization == "w8"
    assert found.memory < 2e9


def test_the_memory_needed_is_the_one_recommended_by_and_unknown_without_sizes() -> None:
    known = entry("m", 1e9, 0.6e9, context=2048)
    (found,) = recommend([known], MACHINE, 8192)
    assert found.memory == memory_needed(known, 8192) == memory_needed(known, 2048)
    assert memory_needed(ModelEntry(name="m", source="hf:o/r/f.gguf"), 8192) is None


def test_every_model_of_the_catalogue_is_estimated() -> None:
    assert len(recommend(known_models().values(), MACHINE, 8192)) == len(known_models())
