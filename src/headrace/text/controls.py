"""Finding the texts of control tokens."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from os.path import commonprefix
from typing import TypeAlias

_MAX_DEPTH = 50
# White_Space of Unicode; Python's own idea of it has four separators more.
_WHITE = "".join(c for c in map(chr, range(0x3001)) if c.isspace() and c not in "\x1c\x1d\x1e\x1f")
_SPACE = re.compile(f"[{_WHITE}]*")

_Fragments: TypeAlias = tuple[set[str], dict[str, list[int]]]


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
        self._flagged = any(c.lstrip or c.rstrip or c.single_word for c in controls.values())

    def scan(self, text: str) -> list[tuple[int, int, int]]:
        """Spans with their token: (start, stop, id), in order and apart.

        Of overlapping texts the leftmost counts, of several that start there the longest.
        """
        if self._pattern is None or self._pattern.search(text) is None:
            return []
        controls = self._controls
        if self._flagged:
            return self._scan_flagged(text, self._pattern)
        return [
            (match.start(), match.end(), controls[match[0]].id)
            for match in self._pattern.finditer(text)
        ]

    def split(self, text: str) -> list[str]:
        """What stands before, between and behind the control tokens."""
        spans = self.scan(text)
        starts = [0, *(stop for _, stop, _ in spans)]
        stops = [*(start for start, _, _ in spans), len(text)]
        return [text[start:stop] for start, stop in zip(starts, stops, strict=True)]

    def begins_within(self, text: str) -> bool:
        """Whether text begins with the end of a control token, which something put before
        it could complete."""
        endings, lengths = self._endings
        return any(text[:n] in endings for n in lengths.get(text[:1], ()))

    def ends_within(self, text: str) -> bool:
        """Whether text ends with the beginning of a control token."""
        beginnings, lengths = self._beginnings
        return any(text[-n:] in beginnings for n in lengths.get(text[-1:], ()))

    @cached_property
    def _endings(self) -> _Fragments:
        """All proper endings of control tokens, and how long they are by their first character."""
        parts = {text[n:] for text in self._controls for n in range(1, len(text))}
        return parts, _lengths(parts, 0)

    @cached_property
    def _beginnings(self) -> _Fragments:
        """All proper beginnings of control tokens, and how long they are by their last one."""
        parts = {text[:n] for text in self._controls for n in range(1, len(text))}
        return parts, _lengths(parts, -1)

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


def _lengths(parts: Iterable[str], at: int) -> dict[str, list[int]]:
    """How long texts are, by the character they have at one end."""
    lengths: defaultdict[str, set[int]] = defaultdict(set)
    for part in parts:
        lengths[part[at]].add(len(part))
    return {character: sorted(found) for character, found in lengths.items()}


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
