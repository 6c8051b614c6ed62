from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from headrace.hosting import opened
from headrace.hosting.opened import OpenedModel
from headrace.hosting.spec import spec_of, usual_step_tokens
from headrace.models.entry import ModelEntry
from headrace.models.sampling import SamplingDefaults
from headrace.models.version import ModelVersion
from headrace.settings import Settings
from tests.models.tiny import write_tiny

ENTRY = ModelEntry(name="tiny", source="here")
VERSION = ModelVersion(
    name="tiny",
    version="abc",
    sha256="abc0",
    path=Path("tiny.gguf"),
    size=1,
    mtime_ns=1,
    source="here",
    licence=None,
    formats=(),
    context_length=None,
    installed_at=0.0,
)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_tiny(tmp_path / "tiny.gguf", "llama")


def test_the_fingerprint_names_the_version_and_the_numerics(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = replace(VERSION, path=tiny)

    def fingerprint(version: ModelVersion, **options: Any) -> str:
        settings = Settings(**options)
        spec = spec_of(settings, settings.of_model("tiny"), version, None, ENTRY)
        return OpenedModel.of(spec).sized(spec).served.fingerprint

    first = fingerprint(version)
    assert first.startswith("fp_")
    # What changes no token leaves it as it is.
    assert fingerprint(replace(version, name="other", installed_at=5.0), threads=1) == first
    assert fingerprint(replace(version, sha256="abc1")) != first
    assert fingerprint(version, kv_cache="int8") != first
    assert fingerprint(version, context_length=64) != first
    monkeypatch.setattr(opened, "NUMERICS", "other")
    assert fingerprint(version) != first


@pytest.mark.parametrize(
    ("threads", "sequences", "tokens"), [(1, 16, 64), (2, 64, 128), (64, 64, 512), (2, 300, 600)]
)
def test_a_step_has_room_for_every_thread_and_every_sequence(
    threads: int, sequences: int, tokens: int
) -> None:
    settings = Settings(threads=threads, max_sequences=sequences)
    assert usual_step_tokens(settings) == tokens


def test_settings_come_before_the_catalogue_and_that_before_the_models_files(
    tmp_path: Path,
) -> None:
    file = tmp_path / "headrace.toml"
    file.write_text("[models.tiny]\ndefault_max_tokens = 7\nsampling = { temperature = 0.5 }\n")
    settings = Settings(config=file)
    entry = replace(ENTRY, sampling=SamplingDefaults(temperature=0.1, top_p=0.9), tier="small")
    spec = spec_of(settings, settings.of_model("tiny"), VERSION, None, entry)
    assert spec.sampling == SamplingDefaults(temperature=0.5, top_p=0.9)
    assert (spec.default_max_tokens, spec.tier) == (7, "small")
    of_file = SamplingDefaults(top_p=0.1, top_k=40)
    assert spec.sampling.over(of_file) == SamplingDefaults(temperature=0.5, top_p=0.9, top_k=40)
