from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.text.tools.format import FORMATS
from headrace.text.tools.parser import CallParser

NAMES = ("note", "get_temp", "get_temp_now")
ALL = pytest.mark.parametrize("name", FORMATS)
Calls = list[tuple[int, str, str, str]]


def parse(name: str, pieces: Iterable[str]) -> tuple[str, Calls]:
    """Content, and (index, id, name, arguments) of each call."""
    numbers = count()
    parser = CallParser(FORMATS[name], NAMES, lambda: f"id{next(numbers)}")
    content, calls = "", []
    for parsed in [*map(parser.feed, pieces), parser.finish()]:
        content += parsed.content
        for delta in parsed.calls:
            if delta.name is not None:
                assert delta.index == len(calls)
                calls.append((delta.index, str(delta.id), delta.name, ""))
            assert delta.index == len(calls) - 1
            calls[-1] = (*calls[-1][:3], calls[-1][3] + delta.arguments)
    assert parser.calls == len(calls)
    return content, calls


@ALL
def test_what_a_format_writes_it_reads(name: str) -> None:
    arguments = {"t": 'a }} </tool_call> ] \\ " é\n', "n": [1, {"x": None}]}
    text = FORMATS[name].write("note", arguments)
    content, [(index, id, function, found)] = parse(name, [text])
    assert (content, index, id, function) == ("", 0, "id0", "note")
    assert found == json.dumps(arguments, ensure_ascii=False)


@ALL
def test_text_around_calls_stays_text(name: str) -> None:
    call = FORMATS[name].write("note", {})
    content, calls = parse(name, [f"Let me see.\n\n{call}\n", "Done; really."])
    assert content == "Let me see.Done; really."
    assert [arguments for *_, arguments in calls] == ["{}"]


@ALL
def test_several_calls_are_numbered(name: str) -> None:
    format = FORMATS[name]
    calls = [format.write("note", {"i": i}) for i in range(3)]
    content, found = parse(name, [format.between.join(calls)])
    assert content == ""
    assert [(index, arguments) for index, _, _, arguments in found] == [
        (i, f'{{"i": {i}}}') for i in range(3)
    ]


def test_a_list_of_calls() -> None:
    one, other = '{"name": "note", "arguments": {}}', '{"name":"get_temp","arguments":{"a":1}}'
    _, calls = parse("mistral", [f"[TOOL_CALLS] [{one}, {other}]"])
    assert [call[2:] for call in calls] == [("note", "{}"), ("get_temp", '{"a":1}')]


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "<tool_call",
        '<tool_call>{"name": "nope", "arguments": {}}</tool_call>',
        '<tool_call>{"name": "get_temp_nowhere", "arguments": {}}</tool_call>',
        '{"name": "Bob", "arguments": {}}',
        'as in {"name": "note", "arguments": {}}',
        '{"name": "note", "arguments": []}',
        '{"name": "note", "argu',
        "a < b and {c}   \n",
        " " * 40,
    ],
)
def test_what_only_looks_like_a_call_is_text(text: str) -> None:
    assert parse("hermes", [text]) == (text, [])
    assert parse("hermes", text) == (text, [])


def test_other_shapes_are_understood_at_the_beginning_of_a_line() -> None:
    call = '{"name": "note", "arguments": {"t": 1}}'
    for text in (call, f"  {call}", f"```json\n{call}\n```", f"<tools>\n{call}\n</tools>"):
        assert parse("hermes", [text]) == ("", [(0, "id0", "note", '{"t": 1}')])
    content, calls = parse("hermes", [f"Well:\n```json\n{call}\n```\nThat was it."])
    assert content == "Well:That was it."
    assert len(calls) == 1


def test_a_call_that_is_cut_off_is_delivered_as_it_is() -> None:
    text = '<tool_call>\n{"name": "note", "arguments": {"t": "ab\\'
    assert parse("hermes", [text]) == ("", [(0, "id0", "note", '{"t": "ab\\')])
    assert parse("hermes", ['Hm\n<tool_call>\n{"name": "no']) == ("Hm", [])  # whose, nobody knows
    whole = '<tool_call>\n{"name": "note", "arguments": {}}\n</tool'
    assert parse("hermes", [whole]) == ("", [(0, "id0", "note", "{}")])


@pytest.mark.parametrize("begun", ["{", '{"na', '{"name": "get_te', '{"name": "note", "argu'])
def test_an_unmarked_call_cut_before_its_arguments_is_no_content_beside_another(begun: str) -> None:
    call = '{"name": "note", "arguments": {}}'
    expected = ("", [(0, "id0", "note", "{}")])
    for text in (f"{call}\n{begun}", f"<tool_call>\n{call}\n</tool_call>\n{begun}"):
        assert parse("hermes", [text]) == expected
        assert parse("hermes", text) == expected
    llama = '{"name": "note", "parameters": {}}'
    assert parse("llama3", [f"{llama}; {begun.replace('argu', 'para')}"]) == expected


def test_what_only_looks_like_a_beginning_is_content_where_the_model_ended_it() -> None:
    parser = CallParser(FORMATS["hermes"], NAMES, lambda: "id")
    call = '<tool_call>\n{"name": "note", "arguments": {}}\n</tool_call>'
    assert len(parser.feed(f"{call}\n{{").calls) == 1
    assert parser.finish(cut=False).content == "{"


@pytest.mark.parametrize("white", [" ", "  ", " " * 8, " " * 12])
def test_white_space_that_comes_before_the_line_of_a_call_may_be_cut_anywhere(white: str) -> None:
    text = f'so{white}\n{{"name": "note", "parameters": {{}}}}'
    whole = parse("gemma", [text])
    assert len(whole[1]) == 1
    for at in range(len(text)):
        assert parse("gemma", [text[:at], text[at:]]) == whole
    assert parse("gemma", text) == whole


def test_long_text_takes_linear_time() -> None:
    """It would take hours if each piece were looked at from the start of its line."""
    text = '{"name": "' * 30_000 + "{" * 30_000 + " " * 300_000
    assert parse("hermes", [text]) == (text, [])
    assert parse("hermes", text) == (text, [])
    inside = '<tool_call>{"name": "note", "arguments": {"t": "' + "\\" * 300_000
    assert len(parse("hermes", inside)[1][0][3]) == 300_000 + len('{"t": "')


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
PIECES = st.sampled_from(
    [
        *("<tool_call>", "</tool_call>", "[TOOL_CALLS]", "[ARGS]", "```json", "```", "<tools>"),
        *("<|python_tag|>", '{"name": "note", "arguments": {', '"name"', ': "note"', "get_temp"),
        *('{"name": "get_temp", "parameters": {"a": "b\\"}"', "}", "{", "[", "]", '"', "\\", ","),
        *(" ", "\n", "\n\n", "  ;", "a", "é", "text"),
    ]
)


@st.composite
def answers(draw: st.DrawFn, name: str) -> str:
    """Text of a model with calls, whole and broken, and with anything between."""
    format = FORMATS[name]
    call = st.builds(
        format.write,
        st.sampled_from([*NAMES, "nope"]),
        st.dictionaries(st.text(), VALUES, max_size=3),
    )
    return "".join(draw(st.lists(call | PIECES | st.text(max_size=5), max_size=12)))


@ALL
@given(data=st.data())
def test_how_the_text_is_cut_makes_no_difference(name: str, data: st.DataObject) -> None:
    text = data.draw(answers(name))
    whole = parse(name, [text])
    assert parse(name, text) == whole
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert parse(name, pieces) == whole
    for *_, arguments in whole[1]:
        assert arguments in text
