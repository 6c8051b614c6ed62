"""`headrace config`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.settings import Settings

from .conftest import Headrace, complaint


def test_every_setting_is_shown_with_its_origin(headrace: Headrace, tmp_path: Path) -> None:
    (tmp_path / "headrace.toml").write_text("max_queue = 7")
    done = headrace("config", "--port", "99", "--json", HEADRACE_HOST="0.0.0.0")
    shown = {row["setting"]: (row["value"], row["origin"]) for row in json.loads(done.stdout)}
    assert list(shown) == list(Settings.model_fields)
    assert shown["port"] == (99, "flag --port")
    assert shown["host"] == ("0.0.0.0", "HEADRACE_HOST")
    assert shown["max_queue"] == (7, "headrace.toml")
    assert shown["kv_memory"] == (None, "default")
    assert shown["data_dir"] == (f"{tmp_path}/.local/share/headrace", "default")


def test_as_a_table_sizes_are_in_words(headrace: Headrace) -> None:
    lines = headrace("config", "--kv-memory", "2GiB").stdout.splitlines()
    assert lines[0].split() == ["SETTING", "VALUE", "ORIGIN"]
    assert ["kv_memory", "2.0GiB", "flag", "--kv-memory"] in [line.split() for line in lines]


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_secrets_are_masked(headrace: Headrace, flags: list[str]) -> None:
    done = headrace(
        "config",
        *flags,
        HEADRACE_BOOTSTRAP_KEY="hr-admin_sekrit",
        HEADRACE_DATABASE_URL="postgresql://anna:sekrit@db/headrace",
    )
    assert "sekrit" not in done.stdout + done.stderr
    assert "hr-admin_****" in done.stdout
    assert "postgresql://anna:****@db/headrace" in done.stdout


def test_each_setting_is_a_flag(headrace: Headrace) -> None:
    shown = headrace("config", "--help").stdout
    for name in Settings.model_fields:
        assert f"--{name.replace('_', '-')}" in shown


@pytest.mark.parametrize(
    ("arguments", "variables", "fault"),
    [
        (["--port", "x"], {}, "port (from flag --port): input should be a valid integer"),
        ([], {"HEADRACE_PORT": "-1"}, "port (from HEADRACE_PORT): input should be greater than"),
        ([], {"HEADRACE_PROT": "1"}, "HEADRACE_PROT; did you mean 'HEADRACE_PORT'?"),
        (["--config", "gone.toml"], {}, "gone.toml: no such file of settings"),
    ],
)
def test_a_bad_setting_is_one_line(
    headrace: Headrace, arguments: list[str], variables: dict[str, str], fault: str
) -> None:
    assert fault in complaint(headrace("config", *arguments, **variables))


def test_tables_of_models_are_shown_as_they_are_written(headrace: Headrace, tmp_path: Path) -> None:
    table = '[models."m"]\ntier = "small"\nsampling = { temperature = 0.5 }\n'
    (tmp_path / "headrace.toml").write_text(table)
    rows = {row["setting"]: row for row in json.loads(headrace("config", "--json").stdout)}
    assert rows["models"]["value"] == {"m": {"tier": "small", "sampling": {"temperature": 0.5}}}
    assert headrace("config").returncode == 0


def test_a_wrong_default_of_sampling_is_named(headrace: Headrace, tmp_path: Path) -> None:
    file = tmp_path / "headrace.toml"
    file.write_text('[models."m"]\nsampling = { temperature = 5 }\n')
    assert "models.m.sampling.temperature: " in complaint(headrace("config"))
    file.write_text('[models."m"]\nsampling = { temprature = 0.5 }\n')
    line = complaint(headrace("config"))
    assert line.endswith("temprature: unknown setting; did you mean 'temperature'?")
