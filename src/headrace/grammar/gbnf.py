"""Grammars in llama.cpp's GBNF, as Lark."""

from __future__ import annotations

import re

from headrace.grammar.errors import GrammarError
from headrace.grammar.lark import MAX_BYTES, MAX_DEPTH

_TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"|\[(?:[^\]\\\n]|\\.)*\]|#[^\n]*')


def gbnf_to_lark(text: str) -> str:
    """Lark with the rule `start` for `root`. Raises GrammarError for what does not convert."""
    # Where a constraint is never asked for, llguidance is never loaded.
    from llguidance.gbnf_to_lark import any_to_lark

    if len(text.encode(errors="replace")) > MAX_BYTES:
        raise GrammarError(f"A grammar has at most {MAX_BYTES} bytes.")
    depth = 0
    for char in _TEXT.sub("", text):
        depth += (char == "(") - (char == ")")
        if depth > MAX_DEPTH:
            raise GrammarError(f"A grammar's groups nest at most {MAX_DEPTH} deep.")
    if "::=" not in text:
        raise GrammarError("A grammar has rules, `root ::= ...`.")
    try:
        lark = any_to_lark(text)
    except RecursionError:
        raise GrammarError("The grammar nests too deep.") from None
    except Exception as error:
        raise GrammarError(f"The grammar does not convert: {str(error)[:200]}.") from None
    return str(lark).removeprefix("%llguidance {}\n")
