from __future__ import annotations

from typing import Any

import pytest

from headrace.grammar.counted import counted
from headrace.grammar.forms import behind, choice, json_object, json_schema, lark, regex
from headrace.grammar.grammar import Grammar


def of(**words: Any) -> Grammar:
    return json_schema({"type": "string", **words})


@pytest.mark.parametrize(
    ("grammar", "characters"),
    [
        (json_object(), 0),
        (of(), 0),
        (of(maxLength=300), 300),
        (of(minLength=20, maxLength=300), 320),
        (of(maxLength=16_385), 0),
        (of(pattern="^a{3,40}b*$"), 40),
        (of(pattern="^a{3,}$"), 3),
        (of(pattern="^((ab){10}c{5}){20}$"), 300),
        (of(pattern="^ é{1}$"), 1),
        (of(format="uuid"), 32),
        (regex("(a|b){7}"), 7),
        (lark('start: A\nA: /[a-c]{4}/ "x"{30}'), 34),
        (choice(["(((", "{12}"]), 12),
        (behind("start: @answer", of(maxLength=300)), 300),
        (behind("start: @answer", of(pattern="^a{3,40}$")), 40),
    ],
)
def test_lengths_and_repetitions_are_counted(grammar: Grammar, characters: int) -> None:
    assert counted(grammar.text) == characters
