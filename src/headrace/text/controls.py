"""Finding the texts of control tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from os.path import commonprefix

_MAX_DEPTH = 50
# White_Space of Unicode; Python's own idea of it has four separators more.
_WHITE = "".join(c for c in map(chr, range(0x3001)) if c.isspace() and c not in "\x1c\x1d\x1e\x1f")
_SPACE = re.compile(f"[{_WHITE}]*")


@dataclass(frozen=True, slots=True)
class Control:
    """A control token and how its text is found, with the flags of Hugging Face's AddedToken:
    lstrip and rstrip take in the white space beside it, single_word wants no word there."""

    id: int
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False


class ControlScanner:
    """Finds control tokens in text, in time linear in it, however many they are."""

    def __init__(self, controls: Mapping[str, Control]) -> None:
        """controls: text -> token; an empty text is never found."""
        texts = sorted(text for text in controls if text)
        self._controls = controls
        self._pattern = re.compile(_any_of(texts)) if texts else None
        self._longest = max(map(len, texts), default=0) - 1  # of a proper part
        self._flagged = any(c.lstrip or c.rstrip or c.single_word for c in controls.values())

    def scan(self, text: str) -> list[tuple[int, int, int]]:
        """Spans with their token: (start, stop, id), in order and apart.

        Of overlapping texts the leftmost counts, of several that start there the longest.
        """
        if self._pattern is None:
            return []
        controls = self._controls
        if self._flagged:
            return self._scan_flagged(text, self._pattern)
        return [
            (match.start(), match.end(), controls[match[0]].id)
            for match in self._pattern.finditer(text)
        ]

    def begins_within(self, text: str) -> bool:
        """Whether text begins with the end of a control token, which something put before
        it could complete."""
        endings, longest = self._fragments[1], min(self._longest, len(text))
        return any(text[:n] in endings for n in range(1, longest + 1))

    def ends_within(self, text: str) -> bool:
        """Whether text ends with the beginning of a control token."""
        beginnings, longest = self._fragments[0], min(self._longest, len(text))
        return any(text[-n:] in beginnings for n in range(1, longest + 1))

    @cached_property
    def _fragments(self) -> tuple[frozenset[str], frozenset[str]]:
        """All proper beginnings and all proper endings of control tokens."""
        return (
            frozenset(text[:n] for text in self._controls for n in range(1, len(text))),
            frozenset(text[n:] for text in self._controls for n in range(1, len(text))),
        )

    def _scan_flagged(self, text: str, pattern: re.Pattern[str]) -> list[tuple[int, int, int]]:
        spans: list[tuple[int, int, int]] = []
        end = 0
        for match in pattern.finditer(text):
            control = self._controls[match[0]]
            start, stop = match.span()
            if start < end or (control.single_word and _touches_word(text, start, stop)):
                continue
            if control.lstrip:
                start = end + len(text[end:start].rstrip(_WHITE))
            if control.rstrip:
                stop = _end_of_space(text, stop)
            spans.append((start, stop, control.id))
            end = stop
        return spans


def _end_of_space(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    return match.end() if match else start


def _touches_word(text: str, start: int, stop: int) -> bool:
    beside = text[start - 1 : start] + " " + text[stop : stop + 1]
    return re.search(r"\w", beside) is not None


def _any_of(texts: list[str], depth: int = 0) -> str:
    """A pattern for the longest of the texts (sorted, distinct, none empty).

    Their common beginnings are written once: else each place where one could start costs a
    try of all. Beyond _MAX_DEPTH, which no real vocabulary reaches, they are written out.
    """
    if depth == _MAX_DEPTH:
        return "(?:" + "|".join(map(re.escape, reversed(texts))) + ")"
    common = commonprefix([texts[0], texts[-1]])  # noqa: RUF071 (not of paths)
    longer = [text[len(common) :] for text in texts if text != common]
    if not longer:
        return re.escape(common)
    branches = [_any_of(list(group), depth + 1) for _, group in groupby(longer, lambda t: t[0])]
    optional = "?" if texts[0] == common else ""
    return f"{re.escape(common)}(?:{'|'.join(branches)}){optional}"
