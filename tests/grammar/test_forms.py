from __future__ import annotations

import json

import pytest

from headrace.grammar import (
    GrammarError,
    behind,
    choice,
    gbnf,
    json_object,
    json_rule,
    json_schema,
    lark,
    regex,
)
from headrace.grammar.forms import MAX_CHOICES
from headrace.grammar.grammar import Grammar
from tests.grammar.following import accepts, matcher


def test_any_object() -> None:
    assert accepts(json_object(), '{"a":[1,{"b":null}],"é":-1.5e3}')
    assert not accepts(json_object(), "[]")


def test_anything_that_is_json() -> None:
    assert accepts(json_schema(True), "[1,true]")
    assert accepts(json_schema({"title": "anything"}), '"x"')


def test_a_choice_is_of_whole_texts() -> None:
    grammar = choice(["yes", 'n"o\n', "yes, but", "é"])
    assert accepts(grammar, "yes")
    assert accepts(grammar, "yes, but")
    assert accepts(grammar, 'n"o\n')
    assert not accepts(grammar, "n")
    assert not accepts(grammar, "yesyes")


@pytest.mark.parametrize("options", [[], ["a", ""], ["x" * (MAX_CHOICES + 1)]])
def test_a_choice_needs_texts(options: list[str]) -> None:
    with pytest.raises(GrammarError):
        choice(options)


def _doubled(times: int, how: str) -> str:
    lines = [how.format(next=i + 1, this=i) for i in range(times)]
    return f'start: A{times}\nA0: "x"\n' + "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "text",
    [
        _doubled(60, "A{next}: A{this} A{this}"),
        _doubled(60, 'A{next}: (A{this} | "a" A{this})'),
        _doubled(10, "A{next}.2: A{this}{{5,9}}"),
        _doubled(10, "A{next}: (A{this})~9"),
        "\n".join(reversed(_doubled(60, "A{next}: A{this} A{this}").splitlines())),
        'start: A\nA: ((("x"{1000}){1000}){1000})',
        "start: A\nA: B{1000}\nB: /(a{99}){99}/",
        "start: A\nA: B{1000}\nB: /a{999}/",
        f'start: A\nA: "x"{{{"9" * 9000}}}',
        f'start: A\nA: "x"{{{"0" * 9000}}}',
        'start: A\nA: "x" B\nB: "y" A?',
    ],
)
def test_terminals_are_not_written_out_to_any_size(text: str) -> None:
    with pytest.raises(GrammarError):
        lark(text)


def test_terminals_may_name_each_other_and_repeat() -> None:
    grammar = lark(
        """
        start: TIME (" " TIME)~0..3
        TIME: HOURS (":" DIGIT{2}){1,2} | "now"
        HOURS: DIGIT{1,2}
        DIGIT: /[0-9]/
        """
    )
    assert accepts(grammar, "7:30 12:00:59 now")
    assert not accepts(grammar, "7:3")


def test_lark() -> None:
    grammar = lark(
        """
        // what is sold
        start: item ("," item)*
        item: NUMBER " " NAME | %json {"type": "boolean"}
        NUMBER: /[1-9][0-9]*/
        NAME: "apple"i | /p(ear|lum)/
        """
    )
    assert accepts(grammar, "3 Apple,12 pear,true")
    assert not accepts(grammar, "0 pear")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "start: missing",
        "start: start",
        'start: "a" start',
        "start: @other",
        "start: <|im_end|>",
        "start: <[1]>",
        "start[max_tokens=3]: /a/",
        "start: /a/i",
        "start: /(?=a)/",
        "start: /a",
        'start: %json {"type": "nothing"}',
        'start: %json {"type": ',
        "%import other.X\nstart: X",
        '%llguidance {"no_forcing": true}\nstart: "a"',
        'start: %regex {"substring_words": "a b"}',
        'start: "a"{100000}',
        "start: " + "(" * 65 + '"a"' + ")" * 65,
        "start: " + "(" * 60_000 + '"a"' + ")" * 60_000,
        "start: r0\n" + "\n".join(f"r{i}: r{i + 1}" for i in range(5000)) + '\nr5000: "a"',
    ],
)
def test_lark_that_is_refused(text: str) -> None:
    with pytest.raises(GrammarError):
        matcher(lark(text))


def test_gbnf() -> None:
    grammar = gbnf(
        r"""
        # lists of words
        root ::= "[" word ("," word)* "]"
        word ::= [a-z]+ | "\"" [^"]* "\""
        """
    )
    assert accepts(grammar, '[ab,"C d"]')
    assert not accepts(grammar, "[A]")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "root = 1",
        'root ::= "a',
        "root ::= missing",
        "root ::= root",
        "root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000,
        "root ::= " + "(" * 20_000 + '"a"' + ")" * 20_000,
        "root ::= " + "(" * 70 + '"a"' + ")" * 70,
    ],
)
def test_gbnf_that_is_refused(text: str) -> None:
    with pytest.raises(GrammarError):
        matcher(gbnf(text))


@pytest.mark.parametrize(
    "answer", [json_object(), choice(["{}"]), regex(r"\{\}"), gbnf('root ::= "{" "}"')]
)
def test_every_grammar_can_stand_behind_thoughts(answer: Grammar) -> None:
    grammar = behind("start: /[^<]*<\\/think>\\n?/ @answer\n", answer)
    assert accepts(grammar, "hm</think>\n{}")
    assert accepts(grammar, "</think>{}")
    assert not accepts(grammar, "hm{}")


def test_schemas_stand_in_rules_of_a_larger_grammar() -> None:
    call = json_rule({"type": "object", "properties": {"n": {"type": "integer"}}}, spaced=True).text
    grammar = Grammar(f'start: "<call>" call "</call>" | text\ncall: {call}\ntext: /[^<]*/\n')
    assert accepts(grammar, '<call>{"n": 3, "m": []}</call>')
    assert accepts(grammar, "no call")
    assert not accepts(grammar, '<call>{"n": "3"}</call>')


def test_an_error_names_its_place() -> None:
    with pytest.raises(GrammarError, match=r"^\$\.items\.type: ") as refused:
        json_schema(json.loads('{"items": {"type": 3}}'))
    assert refused.value.path == "$.items.type"
