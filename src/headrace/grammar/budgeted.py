"""Grammars whose thoughts may take only so many tokens."""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from headrace.grammar.budget import ThoughtBudget
from headrace.grammar.matcher import Matcher
from headrace.grammar.spelling import Spelling
from headrace.text.reasoning import MAX_LEAD
from headrace.text.tokenizer import Tokenizer


class _Where(Enum):
    BEFORE = "before the opening marker, or in it"
    WITHIN = "in the thoughts"
    CLOSING = "in the closing marker that was forced"
    BEHIND = "behind the thoughts, or in an answer without any"


@dataclass(frozen=True, slots=True)
class _Place:
    """count: tokens of the thoughts, or of the closing marker. tail: the latest bytes, as many as
    could belong to a marker."""

    where: _Where
    count: int = 0
    tail: bytes = b""


class BudgetedMatcher:
    """A matcher that forces the marker which ends the thoughts as soon as they have had their
    tokens (`engine.constraint.Constraint`); only an unfinished character comes before it."""

    def __init__(self, matcher: Matcher, budget: ThoughtBudget, tokenizer: Tokenizer) -> None:
        """matcher: at the start of a grammar that allows the marker anywhere in thoughts."""
        thinking = budget.thinking
        self._matcher = matcher
        self._most = budget.tokens
        self._controls = {id: text.encode() for id, text in thinking.controls.items()}
        self._piece = tokenizer.piece
        self._opening, self._closing = thinking.opening.encode(), thinking.closing.encode()
        closing = [id for id, text in thinking.controls.items() if text == thinking.closing]
        self._marker = closing or Spelling(tokenizer)(thinking.closing)
        self._place = _Place(_Where.WITHIN if thinking.begun else _Where.BEFORE)

    @property
    def exhausted(self) -> bool:
        return self._matcher.exhausted

    @property
    def cut(self) -> bool:
        return self._matcher.cut

    def accept(self, token: int) -> None:
        """As `Matcher.accept`; also raises ValueError in place of a marker that has to come."""
        forced = self._due(self._place, ())
        if forced and token != forced[0]:
            raise ValueError(f"token {token} would go on with thoughts that have to end")
        self._matcher.accept(token)
        self._place = self._next(self._place, token)

    def allows(self, tokens: Items[int]) -> int:
        return self._walk(tokens[: self._matcher.allows(tokens)])[0]

    def forced(self) -> list[int]:
        return self._due(self._place, ()) or self._matcher.forced()

    def mask(self, row: NDArray[np.uint32], after: Items[int] = ()) -> bool:
        taken, place = self._walk(after)
        forced = self._due(place, after) if taken == len(after) else []
        if forced and self._matcher.allows(after) == len(after):
            row[:] = 0
            row[forced[0] >> 5] = np.uint32(1 << (forced[0] & 31))
            return True
        if taken == len(after):
            return self._matcher.mask(row, after)
        row[:] = np.uint32(0xFFFFFFFF)
        return True

    def _walk(self, tokens: Items[int]) -> tuple[int, _Place]:
        """How many of them may come, as far as thoughts have to end, and where that leads."""
        place = self._place
        for index, token in enumerate(tokens):
            forced = self._due(place, tokens[:index])
            if forced and token != forced[0]:
                return index, place
            place = self._next(place, token)
        return len(tokens), place

    def _due(self, place: _Place, after: Items[int]) -> list[int]:
        """What has to come at a place, which is that behind these tokens."""
        if place.where is _Where.CLOSING:
            return self._marker[place.count :]
        if place.where is _Where.WITHIN and place.count >= self._most:
            closed = self._matcher.allows([*after, self._marker[0]])
            return self._marker if closed > len(after) else []
        return []

    def _next(self, place: _Place, token: int) -> _Place:
        piece = self._controls.get(token) or self._piece(token)
        match place.where:
            case _Where.BEFORE:
                return self._begin(place.tail + piece)
            case _Where.WITHIN if place.count >= self._most and token == self._marker[0]:
                return self._closed(1)
            case _Where.WITHIN:
                text = place.tail + piece
                if self._closing in text:
                    return _Place(_Where.BEHIND)
                return replace(place, count=place.count + 1, tail=text[1 - len(self._closing) :])
            case _Where.CLOSING:
                return self._closed(place.count + 1)
            case _Where.BEHIND:
                return place

    def _begin(self, text: bytes) -> _Place:
        """As `ReasoningSplitter` sees it."""
        rest = text.lstrip()
        if len(text) - len(rest) <= MAX_LEAD:
            if rest.startswith(self._opening):
                tail = rest.removeprefix(self._opening)
                behind = self._closing in tail
                return _Place(_Where.BEHIND) if behind else _Place(_Where.WITHIN, tail=tail)
            if self._opening.startswith(rest):
                return _Place(_Where.BEFORE, tail=text)
        return _Place(_Where.BEHIND)

    def _closed(self, tokens: int) -> _Place:
        """Behind so many tokens of the closing marker."""
        whole = tokens == len(self._marker)
        return _Place(_Where.BEHIND if whole else _Where.CLOSING, tokens)
