"""Lark grammars that callers write.

They are in llguidance's dialect without what could do more than describe a text: no other grammars,
no control tokens, no attributes. Patterns are rewritten as in `pattern`, schemas as in `schemas`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from headrace.grammar.errors import GrammarError
from headrace.grammar.expansion import Expansion
from headrace.grammar.pattern import whole_pattern

MAX_BYTES = 64 << 10
MAX_DEPTH = 64
MAX_RULES = 1_000
MAX_REPEAT = 1_000

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r\n]+|//[^\n]*|\#[^\n]*)
    | (?P<string>"(?:[^"\\\n]|\\.)*"i?)
    | (?P<pattern>/(?:[^/\\\n]|\\.)+/(?P<flags>[a-z]*))
    | (?P<schema>%json[ \t\r\n]*(?=\{))
    | (?P<directive>%[a-z_]+)
    | (?P<name>[!?]?[A-Za-z_][A-Za-z0-9_]*)
    | (?P<count>[0-9]+)
    | (?P<special><[^>\n]*>|@|::)
    | (?P<sign>->|\.\.|[()\[\]{}|:?*+~,.&=-])""",
    re.VERBOSE,
)
_IMPORT = re.compile(r"%import[ \t]+common\.[A-Z_]+[ \t]*(?=[\r\n]|$)")
_DIRECTIVES = ("%ignore",)


def checked_lark(text: str, json_rule: Callable[[object], str]) -> str:
    """The grammar with its patterns and schemas rewritten. Raises GrammarError.

    json_rule: writes a schema as something to stand in a rule.
    """
    if len(text.encode(errors="replace")) > MAX_BYTES:
        raise GrammarError(f"A grammar has at most {MAX_BYTES} bytes.")
    written: list[str] = []
    expansion = Expansion()
    at = depth = rules = 0
    while at < len(text):
        if imported := _IMPORT.match(text, at):
            written.append(imported[0])
            at = imported.end()
            continue
        match = _TOKEN.match(text, at)
        if match is None:
            raise _fault(text, at, "this is not understood")
        at, token = match.end(), match[0]
        kind = match.lastgroup if match.lastgroup != "flags" else "pattern"
        if kind == "pattern":
            if match["flags"]:
                raise _fault(text, match.start(), "flags of patterns are not supported")
            token = f"/{whole_pattern(token[1:-1])}/"
        elif kind == "schema":
            schema, at = _schema(text, at)
            token = json_rule(schema)
        elif kind == "special" or (kind == "directive" and token not in _DIRECTIVES):
            raise _fault(text, match.start(), f"{token[:40]} is not supported here")
        elif kind == "count" and (len(token) > 9 or int(token) > MAX_REPEAT):
            raise _fault(text, match.start(), f"repetitions count at most to {MAX_REPEAT}")
        elif kind == "sign" and "=" in token:
            raise _fault(text, match.start(), "attributes of rules are not supported")
        depth += (token in ("(", "[", "{")) - (token in (")", "]", "}"))
        rules += kind == "sign" and ":" in token
        if depth > MAX_DEPTH:
            raise _fault(text, match.start(), f"groups nest at most {MAX_DEPTH} deep")
        if rules > MAX_RULES:
            raise _fault(text, match.start(), f"a grammar has at most {MAX_RULES} rules")
        expansion.take(kind, match[0])
        written.append(token)
    expansion.check()
    return "".join(written)


def _schema(text: str, at: int) -> tuple[object, int]:
    try:
        schema, end = json.JSONDecoder().raw_decode(text, at)
    except RecursionError:
        raise _fault(text, at, "the schema nests too deep") from None
    except ValueError:
        raise _fault(text, at, "the schema is not JSON") from None
    return schema, end


def _fault(text: str, at: int, what: str) -> GrammarError:
    line = text.count("\n", 0, at) + 1
    return GrammarError(f"The grammar is refused in line {line}: {what}.")
