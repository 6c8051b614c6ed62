"""What an answer must follow."""

from __future__ import annotations

import msgspec

from headrace.grammar.budget import ThoughtBudget


class Grammar(msgspec.Struct, frozen=True):
    """A grammar that has been checked at the edge: what it compiles to is a function of this and
    of a vocabulary, so it travels as plain text.

    text: in llguidance's Lark dialect, or its JSON form of several grammars. budget: of the
    thoughts in it. free: most of the answer is free text, and the grammar is that of the
    calls in it. bound: the least length of texts that the text does not count (`text_bound`),
    None if there is none. ambiguous: its rules are a caller's own, so a text may be read in many
    ways at once, and what a token may cost is bounded more closely.
    """

    text: str
    budget: ThoughtBudget | None = None
    free: bool = False
    bound: int | None = None
    ambiguous: bool = False
