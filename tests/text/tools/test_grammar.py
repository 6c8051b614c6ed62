"""Grammars of calls, tried on a vocabulary of bytes."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from headrace.grammar import json_rule
from headrace.grammar.compiler import Compiler
from headrace.grammar.grammar import Grammar
from headrace.grammar.matcher import Matcher
from headrace.text.reasoning import Thinking
from headrace.text.tools.format import FORMATS, ToolFormat
from headrace.text.tools.grammar import MAX_CALLS, answer_behind_thoughts, calls_grammar

EOS, MARK, THINK, THOUGHT = 256, 257, 258, 259
VOCAB = 260
INTEGER = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
TEXT = {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]}
RULES = {
    name: json_rule({**schema, "additionalProperties": False}, spaced=True).text
    for name, schema in (("foo", INTEGER), ("bar", TEXT))
}
BEGUN = Thinking("<think>", "</think>", begun=True)
FREE = Thinking("<think>", "</think>")
CONTROLS = {THINK: "<think>", THOUGHT: "</think>"}
THINKINGS = [
    None,
    FREE,
    BEGUN,
    Thinking("<think>", "</think>", controls=CONTROLS),
    Thinking("<think>", "</think>", begun=True, controls=CONTROLS),
]
ALL = pytest.mark.parametrize("format", FORMATS.values(), ids=FORMATS)


class Bytes:
    """A token is a byte; the rest are control tokens."""

    vocab_size = VOCAB

    def piece(self, token: int) -> bytes:
        return bytes([token]) if token < 256 else b""

    def token(self, token: int) -> str:
        return f"<|{token}|>"

    def is_control(self, token: int) -> bool:
        return token >= 256

    def encode_within(self, text: str) -> list[int]:
        return list(text.encode())


COMPILER = Compiler(Bytes(), VOCAB)  # type: ignore[arg-type]


def accepts(grammar: str, *parts: str | int) -> bool:
    """Whether that may be the whole answer."""
    matcher: Matcher = COMPILER.compile(Grammar(grammar), [EOS])
    tokens = [t for p in parts for t in ([p] if isinstance(p, int) else list(p.encode()))]
    if matcher.allows(tokens) < len(tokens):
        return False
    for token in tokens:
        matcher.accept(token)
    return matcher.exhausted or _may_end(matcher)


def _may_end(matcher: Matcher) -> bool:
    try:
        matcher.accept(EOS)
    except ValueError:
        return False
    return True


def grammar(format: ToolFormat, **options: Any) -> str:
    marks = {"<|python_tag|>": MARK}
    defaults: dict[str, Any] = {"must": False, "several": True, "control": marks.get}
    return calls_grammar(format, RULES, **{**defaults, **options})


def two_calls(format: ToolFormat, *, several: bool) -> str:
    one, other = format.write("foo", {"a": 1}), format.write("bar", {"b": "x"})
    if format.shapes[0].listed and several:
        return one[:-1] + ", " + other.removeprefix(format.shapes[0].opening + "[")
    return one + format.between + other


@ALL
@pytest.mark.parametrize(("must", "several"), list(product([True, False], repeat=2)))
@pytest.mark.parametrize("thinking", THINKINGS, ids=str)
def test_calls_are_held_to_their_schemas(
    format: ToolFormat, must: bool, several: bool, thinking: Thinking | None
) -> None:
    rules = grammar(format, must=must, several=several, thinking=thinking)
    before: list[str | int] = []
    if thinking is not None:
        opening, closing = (THINK, THOUGHT) if thinking.controls else ("<think>", "</think>")
        before = [*([] if thinking.begun else [opening]), "hm <tool_call>", closing, "\n\n"]
    call = format.write("foo", {"a": 1})
    assert accepts(rules, *before, call)
    assert accepts(rules, *before, two_calls(format, several=several)) == several
    assert accepts(rules, *before, "hello") == (not must)
    assert not accepts(rules, *before, call.replace('"a": 1', '"a": "1"'))
    assert not accepts(rules, *before, call.replace('"a": 1', '"b": 1'))
    if thinking is not None and not thinking.begun:
        assert accepts(rules, call)
    elif thinking is not None:
        assert not accepts(rules, call)


@ALL
def test_free_text_stays_free(format: ToolFormat) -> None:
    rules = grammar(format)
    for text in ("", "{", '{"name": "Bob", "arguments": 3}', "<html>\n[1]", "a `call`", "é" * 40):
        assert accepts(rules, text)
    call = format.write("foo", {"a": 1})
    assert accepts(rules, f"Well.\n{call}\nDone.")


def test_a_marker_begins_a_call_as_a_token_and_written_out() -> None:
    rules = grammar(FORMATS["llama3"])
    for mark in (MARK, "<|python_tag|>"):
        assert accepts(rules, mark, '{"name": "foo", "parameters": {"a": 1}}')
        assert not accepts(rules, mark, "foo")


def test_other_shapes_are_held_too() -> None:
    rules = grammar(FORMATS["hermes"])
    call = '{"name": "foo", "arguments": {"a": 1}}'
    for text in (call, f"```json\n{call}\n```", f"See:\n<tools>\n{call}\n</tools>"):
        assert accepts(rules, text)
        assert not accepts(rules, text.replace("1", "true"))
    assert accepts(rules, f"as in {call}".replace("1", "true"))  # no call where it stands


def test_no_call_begins_within_thoughts() -> None:
    rules = grammar(FORMATS["hermes"], thinking=FREE)
    assert accepts(rules, "<think>a <tool_call> b</think>c")
    assert not accepts(rules, "<think>a <tool_call> b</think>c <tool_call> d")
    assert not accepts(rules, "<think>for ever")
    assert accepts(rules, "I <think> so")


def joined(rules: str) -> str:
    answer = f"start: {json_rule(INTEGER).text}"
    grammars = [{"lark_grammar": rules}, {"name": "answer", "lark_grammar": answer}]
    return json.dumps({"grammars": grammars})


def test_calls_or_a_document() -> None:
    rules = joined(grammar(FORMATS["hermes"], answer=True))
    assert accepts(rules, '{"a":1}')
    assert accepts(rules, FORMATS["hermes"].write("bar", {"b": ""}))
    assert not accepts(rules, "hello")


def test_a_document_behind_thoughts() -> None:
    assert accepts(joined(answer_behind_thoughts(FREE)), '<think>{"a":</think>\n\n{"a":1}')
    assert accepts(joined(answer_behind_thoughts(FREE)), '{"a":1}')
    assert accepts(joined(answer_behind_thoughts(BEGUN)), 'hm</think>{"a":1}')
    assert not accepts(joined(answer_behind_thoughts(BEGUN)), '{"a":1}')


@pytest.mark.parametrize("must", [True, False])
def test_calls_come_to_an_end(must: bool) -> None:
    format = FORMATS["hermes"]
    rules, call = grammar(format, must=must), format.write("foo", {"a": 1})
    most = format.between.join([call] * MAX_CALLS)
    assert accepts(rules, most)
    assert not accepts(rules, most + format.between + call)
