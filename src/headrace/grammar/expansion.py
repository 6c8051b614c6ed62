"""How large the terminals of a Lark grammar become when each is written out.

A terminal is one regular expression, in which others that it names are written out, so a few lines
that double each other make one of any size. It is counted here, by a pass over the tokens, before
anybody writes it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from graphlib import CycleError, TopologicalSorter

from headrace.grammar.errors import GrammarError
from headrace.grammar.pattern import MAX_REPEAT

MAX_EXPANDED = 64 << 10

_OPENING, _CLOSING = "([", ")]"
_BOUNDS = re.compile(r"\{([0-9]{1,9})(?:,([0-9]{0,9}))?\}")
_OWN = ""  # what stands there itself, beside what is named


class Expansion:
    """Takes a grammar's tokens, then says whether it is too large."""

    def __init__(self) -> None:
        self._bodies: dict[str, Counter[str]] = {}
        self._groups: list[Counter[str]] = [Counter()]
        self._item: Counter[str] = Counter()  # the last one, which a count may follow
        self._name = ""
        self._before = ""

    def take(self, kind: str | None, text: str) -> None:
        """The next token, as it was written, and its kind, as `lark` has them."""
        if kind == "name":
            self._name = text.lstrip("!?")
            self._begin(Counter({self._name: 1}))
        elif kind in ("string", "schema"):
            self._begin(Counter({_OWN: len(text)}))
        elif kind == "pattern":
            self._begin(Counter({_OWN: _pattern_size(text)}))
        elif kind == "directive":
            self._define("")
        elif kind == "count" and self._before in ("{", ",", "~", ".."):
            # Both bounds of a repetition multiply: rather too large than too small.
            times = max(int(text), 1)
            self._item = Counter({name: n * times for name, n in self._item.items()})
        elif text == ":":
            self._item.clear()
            self._define(self._name)
        elif text in _OPENING and kind == "sign":
            self._begin(Counter())
            self._groups.append(Counter())
        elif text in _CLOSING and kind == "sign" and len(self._groups) > 1:
            self._begin(Counter())
            self._item = self._groups.pop()
        if kind != "blank":
            self._before = text

    def check(self) -> None:
        """Raises GrammarError."""
        self._begin(Counter())
        terminals = {name: body for name, body in self._bodies.items() if _is_terminal(name)}
        needed = {name: body.keys() & terminals.keys() for name, body in terminals.items()}
        sizes: dict[str, int] = {}
        try:
            for name in TopologicalSorter(needed).static_order():
                body = terminals[name]
                sizes[name] = sum(n * sizes.get(part, 1) for part, n in body.items())
        except CycleError:
            raise GrammarError("A terminal of the grammar needs itself.") from None
        if sum(sizes.values()) > MAX_EXPANDED:
            raise GrammarError(
                f"Written out, the grammar's terminals have more than {MAX_EXPANDED} characters."
            )

    def _begin(self, item: Counter[str]) -> None:
        self._groups[-1].update(self._item)
        self._item = item

    def _define(self, name: str) -> None:
        self._begin(Counter())
        self._groups = [self._bodies.setdefault(name, Counter())]


def _pattern_size(pattern: str) -> int:
    counts = [max(int(low), int(high or 0), 1) for low, high in _BOUNDS.findall(pattern)]
    counted = math.prod(counts) if "){" in pattern else sum(counts)
    return len(pattern) + min(counted, MAX_REPEAT)  # more than that `pattern` doesn't let through


def _is_terminal(name: str) -> bool:
    return name.lstrip("_")[:1].isupper()
