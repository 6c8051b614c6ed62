"""When those who run will have ended."""

from __future__ import annotations

from bisect import bisect_left, insort

from headrace.dispatch.entry import Entry
from headrace.dispatch.pace import Rate

MEMORY = 3.0
LEAST = 0.2


class Steps:
    """A clock that counts the tokens which each running request was given, and where on it each is
    expected to end. It matters after a start: places that were filled together become free
    together, and nothing does before."""

    __slots__ = ("_marks", "_now", "_rate", "_started")

    def __init__(self) -> None:
        self._now = 0.0
        self._started = 0
        self._marks: list[float] = []
        self._rate = Rate(MEMORY, LEAST)  # tokens a second, of each

    def take(self, entry: Entry) -> None:
        """It has its place."""
        entry.mark = self._now + entry.expected
        insort(self._marks, entry.mark)

    def start(self, entry: Entry, now: float) -> None:
        """Its prompt is computed, and its tokens come from now on."""
        marks = self._marks
        del marks[bisect_left(marks, entry.mark)]
        entry.mark = self._now + entry.expected
        insort(marks, entry.mark)
        if not self._started:
            self._rate.skip(now, busy=True)
        self._started += 1

    def note(self, tokens: int, now: float) -> None:
        """One of them was given so many."""
        passed = tokens / self._started
        self._now += passed
        self._rate.note(passed, now, busy=True)

    def leave(self, entry: Entry) -> None:
        """Its place is free."""
        del self._marks[bisect_left(self._marks, entry.mark)]
        if entry.started:
            self._started -= 1

    def until_free(self, places: int) -> float:
        """Seconds until so many places more are free, of those that are taken; 0 while that can't
        be told."""
        rate, marks = self._rate.value, self._marks
        if rate is None or not marks or places < 1:
            return 0.0
        left = (marks[places - 1] if places < len(marks) else marks[-1]) - self._now
        return left / rate if left > 0 else 0.0
