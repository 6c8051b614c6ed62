"""What callers can ask an answer to follow, as grammars."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from headrace.grammar.errors import GrammarError
from headrace.grammar.gbnf import gbnf_to_lark
from headrace.grammar.grammar import Grammar
from headrace.grammar.lark import checked_lark
from headrace.grammar.pattern import whole_pattern
from headrace.grammar.schemas import MAX_LENGTH, check_schema

MAX_CHOICES = 32 << 10

# Every text has one spelling: no \u escapes, which could name a key a second time.
_ESCAPES = 'nrbtf\\"'


class JsonRule(NamedTuple):
    """A schema as something to stand in a Lark rule, `%json {...}`, and the bound that it does not
    count (`Grammar.bound`)."""

    text: str
    bound: int | None


def json_rule(schema: object, *, spaced: bool = False) -> JsonRule:
    """A schema in a grammar.

    Documents are compact; spaced ones have one space behind each comma and colon. There is no
    other white space. Raises GrammarError.
    """
    options = {
        "whitespace_flexible": False,
        "item_separator": ", " if spaced else ",",
        "key_separator": ": " if spaced else ":",
        "json_allowed_escapes": _ESCAPES,
    }
    checked = check_schema(schema)
    form = checked.form if isinstance(checked.form, dict) else {}
    # Options come last: they are swapped out, and the order of keys is the order of properties.
    text = json.dumps({**form, "x-guidance": options}, ensure_ascii=False)
    return JsonRule(f"%json {text}", checked.bound)


def json_object() -> Grammar:
    """Any JSON object."""
    return json_schema({"type": "object"})


def json_schema(schema: object, *, spaced: bool = False) -> Grammar:
    """Documents that a JSON schema describes. Raises GrammarError."""
    rule = json_rule(schema, spaced=spaced)
    return Grammar(f"start: {rule.text}\n", bound=rule.bound)


def regex(pattern: str) -> Grammar:
    """Texts that match a pattern (as ECMA-262 writes it) from end to end. Raises GrammarError."""
    return Grammar(f"start: /{whole_pattern(pattern)}/\n")


def choice(options: Sequence[str]) -> Grammar:
    """One of some texts. Raises GrammarError."""
    if not options or "" in options:
        raise GrammarError("A choice is between texts, at least one, and none of them empty.")
    if sum(map(len, options)) > MAX_CHOICES:
        raise GrammarError(f"The texts of a choice have at most {MAX_CHOICES} characters in all.")
    written = " | ".join(map(_quoted, options))
    return Grammar(f"start: CHOICE\nCHOICE: {written}\n")


def lark(text: str) -> Grammar:
    """A Lark grammar as in `lark.checked_lark`; its rule `start` is the whole. Raises
    GrammarError."""
    return Grammar(checked_lark(text, _counted_rule), ambiguous=True)


def gbnf(text: str) -> Grammar:
    """A grammar in llama.cpp's GBNF; its rule `root` is the whole. Raises GrammarError."""
    return lark(gbnf_to_lark(text))


def behind(rules: str, answer: Grammar) -> Grammar:
    """Rules in Lark that speak of `@answer`, say behind thoughts, with that."""
    grammars = [{"lark_grammar": rules}, {"name": "answer", "lark_grammar": answer.text}]
    text = json.dumps({"grammars": grammars}, ensure_ascii=False)
    return msgspec.structs.replace(answer, text=text)


def _counted_rule(schema: object) -> str:
    """In a caller's grammar, where anything may stand beside a text."""
    rule = json_rule(schema)
    if rule.bound is not None:
        raise GrammarError(f"In a grammar a maxLength is supported up to {MAX_LENGTH}.")
    return rule.text


def _quoted(text: str) -> str:
    """As a string of Lark, which takes no raw control character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
