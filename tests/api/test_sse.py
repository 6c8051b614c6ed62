"""Events are lines to any reader."""

from __future__ import annotations

import json

import msgspec
import pytest

from headrace.api import sse

CHARACTERS = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"


@pytest.mark.parametrize("character", CHARACTERS)
def test_no_character_of_the_data_ends_a_line(character: str) -> None:
    data = {"text": f"x{character}y"}
    event = sse.plain_lines(sse.event(msgspec.json.encode(data)))
    lines = event.decode().splitlines()
    assert len(lines) == 2
    assert json.loads(lines[0].removeprefix("data: ")) == data


def test_other_text_stays_as_it_is() -> None:
    event = sse.event('{"text":"é 中 \U0001f600"}'.encode())
    assert sse.plain_lines(event) is event or sse.plain_lines(event) == event
