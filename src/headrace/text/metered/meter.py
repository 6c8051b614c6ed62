"""What is left of a render's work."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import jinja2

from headrace.text.metered.sizes import size_of

BASE_WORK = 16 << 20
"""Units that every render may take: half a second of one core at most, and at most 16 million
characters."""

WORK_FOR_CHARACTER, VALUE = 64, 64
"""Units more for each character that a template is given; a value counts as so many characters
beside its own."""

MAX_WORK = 512 << 20
"""Units that no render may pass. A character that is made takes one, so this bounds memory too."""

NANOSECONDS = 30
"""Of processor time that a unit stands for at most."""

SLICE = 1 << 19
"""Units between two looks at whether the render is still wanted."""


class OutOfWork(jinja2.TemplateRuntimeError):
    """A render wants more work than it may take."""


class GivenUp(Exception):
    """Nobody waits for the render any more."""


class Meter:
    """What a render may still do. It is handed out in slices.

    left: units of the slice. slices: how many were begun.
    """

    __slots__ = ("_extended", "_given", "_known", "_most", "_rest", "_stopped", "left", "slices")

    def __init__(
        self,
        work: int,
        given: tuple[object, ...] = (),
        *,
        most: int = MAX_WORK,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """work: units. given: what the template is rendered with; its size adds to the work, up
        to `most`, once the rest is spent. stopped: whether the render is no longer wanted."""
        self.left = min(work, SLICE)
        self.slices = 1
        self._rest = work - self.left
        self._most = most - work
        self._given = given
        self._stopped = stopped
        self._extended = False
        self._known: frozenset[int] | None = None

    def was_given(self, value: object) -> bool:
        """Whether the value is known to have come with the input, where nothing is shared: of the
        tools, and of the messages' calls."""
        if self._known is None:
            self._known = frozenset(map(id, _parts_of_functions(self._given)))
        return id(value) in self._known

    def spend(self, units: int) -> None:
        """Raises OutOfWork where that is more than is left, and GivenUp."""
        self.left -= units
        if self.left < 0:
            self.refill()

    def spend_on(self, value: object, each: int, times: int = 1) -> None:
        """For so many readings of a value as text, with so many units for each part of it."""
        size = size_of(value, each, self.left + self._rest)
        if size > self.left + self._rest:
            self._extend()
            size = size_of(value, each, self.left + self._rest)
        self.spend(times * size)

    def refill(self) -> None:
        """Begin the next slice, from which what is owed is paid. Raises OutOfWork and GivenUp."""
        if self._stopped():
            raise GivenUp
        if self.left + self._rest < 0:
            self._extend()
        if self.left + self._rest < 0:
            raise OutOfWork(
                "the chat template takes more work or makes more text than is allowed for what it"
                " was given"
            )
        taken = min(self._rest, SLICE - self.left)
        self._rest -= taken
        self.left += taken
        self.slices += 1

    def _extend(self) -> None:
        if not self._extended:
            self._extended = True
            size = size_of(self._given, VALUE, self._most // WORK_FOR_CHARACTER)
            self._rest += min(WORK_FOR_CHARACTER * size, self._most)


def _parts_of_functions(given: tuple[object, ...]) -> Iterator[object]:
    """Of lists of tools, and of lists of messages with calls."""
    for values in given:
        for value in values if isinstance(values, list | tuple) else ():
            if not isinstance(value, dict):
                continue
            for tool in (value, *(value.get("tool_calls") or ())):
                function = tool.get("function")
                yield from (tool, function)
                if isinstance(function, dict):
                    yield from (function.get("parameters"), function.get("arguments"))
