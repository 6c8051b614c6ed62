from __future__ import annotations

import pytest

from headrace.settings import Settings, SettingsError
from headrace.text.tools.format import FORMATS, format_of


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("{{ tools }}<tool_call>", "hermes"),
        ("{{ tools }}[TOOL_CALLS][", "mistral"),
        ("{{ tools }}[TOOL_CALLS]x[ARGS]", "mistral-named"),
        ("<|start_header_id|>{{ tools }}", "llama3"),
        ("<start_of_turn>{{ tools }}", "gemma"),
        ("{{ tools }}", "json"),
    ],
)
def test_a_template_tells_its_format(template: str, name: str) -> None:
    assert format_of(template, knows_tools=True) is FORMATS[name]


def test_a_template_without_tools_gets_one_that_works() -> None:
    assert format_of("<start_of_turn>", knows_tools=False) is FORMATS["hermes"]


def test_the_markers_of_a_format() -> None:
    assert FORMATS["mistral-named"].markers == ("[TOOL_CALLS]", "[ARGS]")
    assert FORMATS["hermes"].markers[:2] == ("<tool_call>", "</tool_call>")


def test_every_format_can_be_set_and_no_other() -> None:
    assert {Settings(tool_format=name).tool_format for name in FORMATS} == set(FORMATS)
    with pytest.raises(SettingsError):
        Settings(tool_format="yaml")
