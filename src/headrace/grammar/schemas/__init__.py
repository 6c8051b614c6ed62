"""JSON schemas: what is enforced exactly, and what is refused.

A schema is rewritten into the few keywords that llguidance enforces to the letter (`form`), and
everything that cannot be is refused with its place. What is rewritten, and why:

- words of older drafts become today's, and words that a draft doesn't know are annotations
  (`dialect`);
- references become local names, so that ids, anchors and pointers mean one thing (`resources`);
- patterns and formats become anchored patterns of one dialect (`strings`);
- `not`, `if` and a `oneOf` whose branches overlap become what does not satisfy a schema
  (`complement`, `exclusion`);
- what an array contains, dependencies, names of properties and what is left unevaluated become the
  arrays and objects they allow (`arrays`, `objects`);
- what no finite document can satisfy becomes `false` (`satisfaction`).

A form may describe less than its schema, never more. Numbers are doubles there, so bounds that are
none are refused. A free name may come twice in an object, so at least two free names cannot be
asked for.
"""

from __future__ import annotations

import json

from headrace.grammar.errors import GrammarError
from headrace.grammar.schemas.arrays import IN_PLACE
from headrace.grammar.schemas.document import MAX_DEPTH, MAX_SCHEMAS, MAX_VALUES, SchemaDocument
from headrace.grammar.schemas.form import Form
from headrace.grammar.schemas.objects import MAX_PROPERTIES
from headrace.grammar.schemas.strings import MAX_LENGTH
from headrace.grammar.schemas.uncounted import Checked, marked

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_LENGTH",
    "MAX_PROPERTIES",
    "MAX_SCHEMAS",
    "MAX_VALUES",
    "Checked",
    "Form",
    "check_schema",
]

MAX_BYTES = 256 << 10

_COMBINING = (*IN_PLACE, "dependencies", "$dynamicRef", "$recursiveRef", "contains")


def check_schema(schema: object) -> Checked:
    """The schema in the words that are enforced to the letter (`llguidance`'s dialect).

    Drafts 4, 6, 7, 2019-09 and 2020-12, by `$schema`; without it 2020-12. Raises GrammarError with
    the place and the reason for what is not supported, too large, or satisfied by no document.
    """
    try:
        text = json.dumps(schema, ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
    except RecursionError:
        raise GrammarError(f"A schema nests at most {MAX_DEPTH} deep.", "$") from None
    except UnicodeEncodeError:
        raise GrammarError("The schema has half a surrogate pair in it.", "$") from None
    except (TypeError, ValueError):
        raise GrammarError("A schema is JSON.", "$") from None
    if size > MAX_BYTES:
        raise GrammarError(f"A schema has at most {MAX_BYTES} bytes.", "$")
    combines = any(f'"{word}"' in text for word in _COMBINING)
    return marked(SchemaDocument(schema, combines=combines).form())
