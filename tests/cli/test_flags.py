"""Flags made from settings: what `--help` shows for the value each takes."""

from __future__ import annotations

from headrace.cli.flags import _metavar
from headrace.settings import Settings

from .conftest import Headrace


def test_every_flag_shows_its_values_or_their_kind() -> None:
    shown = {
        name: _metavar(field.annotation)
        for name, field in Settings.model_fields.items()
        if name != "models"
    }
    assert shown["kv_cache"] == "[int16|int8]"
    assert shown["speculate"] == "[off|ngram|draft]"
    assert shown["log_level"] == "[debug|info|warning|error]"
    assert shown["isa"] == "[avx512|avx2|neon|scalar]"
    assert shown["classes"] == "JSON"
    assert shown["prefix_cache"] == "[true|false]"
    assert (shown["kv_memory"], shown["max_body_bytes"]) == ("SIZE", "SIZE")
    assert (shown["port"], shown["target_itl"], shown["data_dir"]) == ("N", "X", "PATH")
    assert (shown["host"], shown["model"], shown["bootstrap_key"]) == ("TEXT", "TEXT", "TEXT")


def test_serve_lists_what_is_served_and_where_before_the_engines_settings(
    headrace: Headrace,
) -> None:
    text = headrace("serve", "--help", COLUMNS="200").stdout
    places = [text.index(flag) for flag in ("--model ", "--host", "--port", "--kv-memory")]
    assert places == sorted(places)
    assert "spool" not in text
