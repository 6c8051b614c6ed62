"""Constraints at the logits: what an answer must follow, compiled to masks over tokens."""

from headrace.grammar.errors import GrammarError
from headrace.grammar.forms import (
    behind,
    choice,
    gbnf,
    json_object,
    json_rule,
    json_schema,
    lark,
    regex,
)
from headrace.grammar.grammar import Grammar
from headrace.grammar.schemas import check_schema

__all__ = [
    "Grammar",
    "GrammarError",
    "behind",
    "check_schema",
    "choice",
    "gbnf",
    "json_object",
    "json_rule",
    "json_schema",
    "lark",
    "regex",
]
