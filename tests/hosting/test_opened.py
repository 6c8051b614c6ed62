"""What a model's files say, as the service sees it and says it in its log."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from headrace.fleet.config import WorkerConfig
from headrace.hosting.opened import OpenedModel
from headrace.hosting.spec import ModelSpec
from headrace.models.version import ModelVersion
from tests.models.tiny import write_tiny


def spec_of(path: Path) -> ModelSpec:
    version = ModelVersion(
        name="tiny",
        version="0123456789ab",
        sha256="0" * 64,
        path=path,
        size=1,
        mtime_ns=1,
        source=str(path),
        licence=None,
        formats=(),
        context_length=None,
        installed_at=1.0,
    )
    config = WorkerConfig(path=str(path), model="tiny", version=version.version)
    return ModelSpec(version=version, config=config)


@pytest.mark.parametrize(
    ("metadata", "events"),
    [
        ({}, ["chat_template_missing"]),
        ({"tokenizer.chat_template": "T"}, []),
        ({"tokenizer.chat_template": "T", "tokenizer.chat_template.tool_use": "U"}, []),
        (
            {"tokenizer.chat_template": "T", "general.sampling.xtc_probability": 0.5},
            ["model_settings_ignored"],
        ),
    ],
)
def test_what_callers_might_not_expect_is_logged_once(
    tmp_path: Path, metadata: dict[str, object], events: list[str]
) -> None:
    path = write_tiny(tmp_path / "m.gguf", "llama", metadata=metadata)
    spec = spec_of(path)
    with capture_logs() as logs:
        OpenedModel.of(spec).sized(spec)
    assert [log["event"] for log in logs] == events
    assert all(log["model"] == "tiny@0123456789ab" for log in logs)


def test_a_model_with_a_template_for_tools_takes_tools(tmp_path: Path) -> None:
    metadata = {"tokenizer.chat_template": "T", "tokenizer.chat_template.tool_use": "{{ tools }}"}
    spec = spec_of(write_tiny(tmp_path / "m.gguf", "llama", metadata=metadata))
    assert OpenedModel.of(spec).sized(spec).served.tools
