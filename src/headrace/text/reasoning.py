"""Thoughts told apart from the answer: what a model writes between markers before it speaks."""

from __future__ import annotations

from enum import Enum

import msgspec

MARKERS = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
)
"""How models that think are known to begin and end it: Qwen 3, SmolLM3, DeepSeek and GLM;
Magistral; Seed-OSS; Command A."""

MAX_LEAD = 32
"""Most white space before the opening marker; after more, it is an answer without thoughts."""


class Thinking(msgspec.Struct, frozen=True):
    """How one answer's thoughts are marked. begun: the prompt ends within them. controls: texts
    of those markers that are control tokens, which otherwise stand for no text."""

    opening: str
    closing: str
    begun: bool = False
    controls: dict[int, str] = {}


class _Place(Enum):
    BEFORE = "nothing but white space so far"
    OPENED = "in the thoughts, of which there is nothing yet"
    WITHIN = "in the thoughts"
    CLOSED = "behind the thoughts, and no answer yet"
    ANSWER = "in the answer"


class ReasoningSplitter:
    """Splits an answer's text, token by token, into thoughts and what follows them.

    Thoughts begin where the answer does (or in the prompt) and end at the first closing marker;
    a marker anywhere else is text. Markers and the line breaks beside them are part of neither.
    Only what may still belong to a marker, or be such a line break, is held back. The outcome
    does not depend on how the text is cut into tokens, and the work is linear in it.

    tokens: how many were spent on thoughts, markers included.
    """

    __slots__ = ("_breaks", "_held", "_opened", "_place", "_thinking", "_undecided", "tokens")

    def __init__(self, thinking: Thinking) -> None:
        self.tokens = 0
        self._thinking = thinking
        self._place = _Place.OPENED if thinking.begun else _Place.BEFORE
        self._held = ""
        self._breaks = 0  # line breaks held back: the thoughts may end with them
        self._opened = thinking.begun
        self._undecided = 0  # tokens that may turn out to have opened the thoughts

    def feed(self, text: str) -> tuple[str, str]:
        """One token's text -> what became certain of the thoughts, and of the answer."""
        place = self._place
        parts = self._split(text)
        if place is _Place.BEFORE:
            self._undecided += 1
            self.tokens += self._undecided * self._opened
        elif place in (_Place.OPENED, _Place.WITHIN):
            self.tokens += 1
        return parts

    def finish(self, text: str = "") -> tuple[str, str]:
        """End of the tokens, and text of no token of its own: what was held back of the
        thoughts, and of the answer."""
        thought, answer = self._split(text)
        held, self._held = self._held, ""
        if self._place in (_Place.OPENED, _Place.WITHIN):
            return thought + self._thought(held), answer
        return thought, answer + held

    def _split(self, text: str) -> tuple[str, str]:
        thought = ""
        if self._place is _Place.BEFORE:
            text = self._begin(text)
        if self._place in (_Place.OPENED, _Place.WITHIN):
            thought, text = self._think(text)
        if self._place is _Place.CLOSED:
            text = text.lstrip("\n")
            if text:
                self._place = _Place.ANSWER
        return thought, text

    def _begin(self, text: str) -> str:
        """See whether the answer opens with the marker; what is left of the text after it."""
        opening = self._thinking.opening
        text, self._held = self._held + text, ""
        rest = text.lstrip()
        if len(text) - len(rest) > MAX_LEAD or not (
            rest.startswith(opening) or opening.startswith(rest)
        ):
            self._place = _Place.ANSWER
            return text
        if len(rest) < len(opening):
            self._held = text
            return ""
        self._place = _Place.OPENED
        self._opened = True
        return rest.removeprefix(opening)

    def _think(self, text: str) -> tuple[str, str]:
        """Thoughts, and what stands behind their end, if it is in this text."""
        text, self._held = self._held + text, ""
        before, closing, after = text.partition(self._thinking.closing)
        if closing:
            thought = self._thought(before)
            self._place = _Place.CLOSED
            return thought, after
        certain = len(text) - _overlap(text, self._thinking.closing)
        self._held = text[certain:]
        return self._thought(text[:certain]), ""

    def _thought(self, text: str) -> str:
        """Text of the thoughts without the line breaks that begin them or may end them."""
        if self._place is _Place.OPENED:
            text = text.lstrip("\n")
        core = text.rstrip("\n")
        if not core:
            self._breaks += len(text)
            return ""
        thought = "\n" * self._breaks + core
        self._breaks = len(text) - len(core)
        self._place = _Place.WITHIN
        return thought


def _overlap(text: str, marker: str) -> int:
    """Length of the longest proper beginning of the marker that the text ends with."""
    longest = min(len(text), len(marker) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(marker[:n])), 0)
