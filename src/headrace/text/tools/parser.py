"""Function calls found in a model's text as it comes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum

from headrace.text.tools.format import MAX_WHITE, Shape, ToolFormat

_WHITE = re.compile(rf"[ \t\r\n]{{0,{MAX_WHITE}}}")
_NAME = re.compile(r"[a-zA-Z0-9_-]*")
_BLANK = " \t\r;,"  # what may stand before a call in its line
_AFTER = re.compile(r"[\s;,]*")  # what belongs to a call that stands before it
_STRUCTURE = re.compile(r'["{}\[\]]')
_STRING = re.compile(r'["\\]')


@dataclass(slots=True)
class CallDelta:
    """More of the call `index`. id and name: with the first only. arguments: a piece of the
    JSON text. at: how many characters of the content beside it stand before it."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""
    at: int = 0


@dataclass(slots=True)
class Parsed:
    """What became certain: text of the answer, and of calls, one delta a call."""

    content: str = ""
    calls: list[CallDelta] = field(default_factory=list)

    def add(self, more: Parsed) -> None:
        """What came after this."""
        before = len(self.content)
        self.content += more.content
        for call in more.calls:
            if call.id is None and self.calls and self.calls[-1].index == call.index:
                self.calls[-1].arguments += call.arguments
            else:
                call.at += before
                self.calls.append(call)

    def piece(self, index: int, arguments: str) -> None:
        if self.calls and self.calls[-1].index == index:
            self.calls[-1].arguments += arguments
        elif arguments:
            self.calls.append(CallDelta(index, arguments=arguments, at=len(self.content)))


class _Part(Enum):
    WHITE = "white space"
    NAME = "the name of a known function"
    OBJECT = "the beginning of an object, which is not taken"


class _Misfit(Enum):
    NONE = "it is something else"
    UNFINISHED = "more text may make it fit"

    @classmethod
    def of(cls, literal: str, found: str) -> _Misfit:
        """Of a literal and as much as stands in its place."""
        return cls.UNFINISHED if literal.startswith(found) else cls.NONE


class _Place(Enum):
    TEXT = "in text"
    ARGUMENTS = "in a call's arguments"
    TAIL = "behind a call's arguments"


Parts = Sequence[str | _Part]


class CallParser:
    """Splits an answer's text into content and calls.

    A call ends where its arguments' JSON does, whatever their strings hold. White space before
    and behind calls belongs to nobody. Only what may still become a call, a few hundred
    characters at most, is held back. The outcome does not depend on how the text is cut, and the
    work is linear in it.

    calls: how many have begun.
    """

    def __init__(
        self, format: ToolFormat, names: Collection[str], new_id: Callable[[], str]
    ) -> None:
        """names: of the functions that may be called. new_id: makes the id of a call."""
        self.calls = 0
        self._names = frozenset(names)
        self._new_id = new_id
        self._heads = [(shape, _head(shape)) for shape in format.shapes]
        firsts = "".join(re.escape((shape.opening or "{")[0]) for shape in format.shapes)
        # All at which a call could begin, and white space that could stand before one.
        self._candidate = re.compile(rf"{_WHITE.pattern}(?:[{firsts}]|\Z)")
        self._shape = format.shapes[0]
        self._place = _Place.TEXT
        self._held = ""
        self._behind = False  # a call, with nothing of its own since
        self._indent: int | None = 0  # blanks since the line began; None: there is more in it
        self._depth = 0
        self._in_string = False
        self._escaped = False

    @property
    def unfinished(self) -> bool:
        """Whether a call's arguments go on."""
        return self._place is _Place.ARGUMENTS

    def feed(self, text: str) -> Parsed:
        """More of the answer -> what became certain."""
        parsed = Parsed()
        self._held += text
        self._advance(parsed, last=False)
        return parsed

    def finish(self, *, cut: bool = True) -> Parsed:
        """The end: what was held back is content, unless it ended a call, or began one that never
        came to its name. Without a marker that is only sure behind another call. cut: the model
        did not end the text itself."""
        parsed = Parsed()
        begun = self._held.lstrip() if self._place is _Place.TEXT else ""
        marked = any(shape.sure and begun.startswith(shape.opening) for shape, _ in self._heads)
        if marked or (cut and self.calls and begun and self._is_beginning()):
            self._held = ""
        self._advance(parsed, last=True)
        return parsed

    def _is_beginning(self) -> bool:
        """Whether what is held back could become a call."""
        return self._begins(self._held, 0, last=False) is _Misfit.UNFINISHED

    def _advance(self, parsed: Parsed, *, last: bool) -> None:
        steps = {
            _Place.TEXT: self._text,
            _Place.ARGUMENTS: self._arguments,
            _Place.TAIL: self._tail,
        }
        while self._held and steps[self._place](parsed, last):
            pass

    def _text(self, parsed: Parsed, last: bool) -> bool:
        """Look for a call; whether there was one."""
        if self._behind:
            self._skip()
        held, at = self._held, 0
        while at < len(held):
            candidate = self._candidate.search(held, at)
            assert candidate is not None, "the end is always one"
            found = self._begins(held, candidate.start(), last)
            if found is not _Misfit.NONE:
                parsed.content += self._pass(held[: candidate.start()])
                if isinstance(found, _Misfit):
                    self._held = held[candidate.start() :]
                    return False
                shape, name, end = found
                self._held = held[end:]
                self._open(parsed, shape, name)
                return True
            # White space at the end is tried from each place: more may come, a new line in it.
            white = not candidate.group().strip() and not last
            at = candidate.start() + 1 if white else max(candidate.end(), candidate.start() + 1)
        parsed.content += self._pass(held)
        self._held = ""
        return False

    def _skip(self) -> None:
        """Drop what belongs to the call before."""
        end = _AFTER.match(self._held).end()  # type: ignore[union-attr]
        self._note(self._held[:end])
        self._held = self._held[end:]
        self._behind = not self._held

    def _pass(self, content: str) -> str:
        self._note(content)
        return content

    def _note(self, text: str) -> None:
        """Keep count of what stands in the line."""
        _, newline, line = text.rpartition("\n")
        if newline:
            self._indent = 0
        if self._indent is not None:
            self._indent = None if line.strip(_BLANK) else self._indent + len(line)

    def _begins(self, text: str, start: int, last: bool) -> tuple[Shape, str, int] | _Misfit:
        """The call that begins here: its shape, its function, and where its arguments begin."""
        misfit = _Misfit.NONE
        for shape, head in self._heads:
            if not shape.sure and not self._begins_line(text, start):
                if self._white_goes_on(text, start):
                    misfit = _Misfit.UNFINISHED
                continue
            found = self._fit(head, text, start)
            if not isinstance(found, _Misfit):
                return shape, *found
            if found is _Misfit.UNFINISHED:
                misfit = found
        return _Misfit.NONE if last else misfit

    def _white_goes_on(self, text: str, start: int) -> bool:
        """Whether more white space may come, a new line in it."""
        return len(text) - MAX_WHITE < start and not text[start:].strip(" \t\r\n")

    def _begins_line(self, text: str, start: int) -> bool:
        """Whether what follows the white space here begins a line, but for a few blanks."""
        end = _WHITE.match(text, start).end()  # type: ignore[union-attr]
        window = text[max(end - MAX_WHITE - 1, 0) : end]
        _, newline, line = window.rpartition("\n")
        if line.strip(_BLANK) or (not newline and len(window) < end):
            return False
        indent = 0 if newline else self._indent
        return indent is not None and indent + len(line) <= MAX_WHITE

    def _fit(self, parts: Parts, text: str, at: int) -> tuple[str, int] | _Misfit:
        """The name among the parts, "" for none, and where they end, if they stand here."""
        name = ""
        for part in parts:
            if part is _Part.WHITE:
                at = _WHITE.match(text, at).end()  # type: ignore[union-attr]
            elif part is _Part.NAME:
                name = _NAME.match(text, at).group()  # type: ignore[union-attr]
                at += len(name)
                if not (name in self._names if at < len(text) else self._could_be(name)):
                    return _Misfit.NONE
            else:
                literal = "{" if isinstance(part, _Part) else part
                if not text.startswith(literal, at):
                    return _Misfit.of(literal, text[at : at + len(literal)])
                at += len(part) if isinstance(part, str) else 0
        return name, at

    def _could_be(self, beginning: str) -> bool:
        return any(name.startswith(beginning) for name in self._names)

    def _open(self, parsed: Parsed, shape: Shape, name: str) -> None:
        parsed.calls.append(CallDelta(self.calls, self._new_id(), name, at=len(parsed.content)))
        self.calls += 1
        self._shape = shape
        self._place = _Place.ARGUMENTS

    def _arguments(self, parsed: Parsed, last: bool) -> bool:
        """Pass arguments on up to their end; whether it is here."""
        held, end = self._held, self._end_of_value()
        self._held = "" if end is None else held[end:]
        parsed.piece(self.calls - 1, held[:end])
        if end is None:
            return False
        self._place = _Place.TAIL
        if not _tail(self._shape):
            self._close()
        return True

    def _end_of_value(self) -> int | None:
        """Where in what is held the value ends that has begun."""
        text, at = self._held, 0
        if self._escaped:
            at, self._escaped = 1, False
        while True:
            found = (_STRING if self._in_string else _STRUCTURE).search(text, at)
            if found is None:
                return None
            at, mark = found.end(), found.group()
            if mark == "\\":
                if at == len(text):
                    self._escaped = True
                    return None
                at += 1
            elif mark == '"':
                self._in_string = not self._in_string
            else:
                self._depth += 1 if mark in "{[" else -1
                if not self._depth:
                    return at

    def _tail(self, parsed: Parsed, last: bool) -> bool:
        """Take what ends a call, or what leads to the next of a list; whether it is here."""
        if self._shape.listed:
            found = self._fit(_next(self._shape), self._held, 0)
            if not isinstance(found, _Misfit):
                name, end = found
                self._held = self._held[end:]
                self._open(parsed, self._shape, name)
                return True
            if found is _Misfit.UNFINISHED and not last:
                return False
        found = self._fit(_tail(self._shape), self._held, 0)
        if found is _Misfit.UNFINISHED:
            return False
        if not isinstance(found, _Misfit):
            self._held = self._held[found[1] :]
        self._close()
        return True

    def _close(self) -> None:
        self._place = _Place.TEXT
        self._behind = True
        self._indent = 0


def _head(shape: Shape) -> Parts:
    """All that stands before a call's arguments."""
    opening = (_Part.WHITE, shape.opening) if shape.opening else ()
    if shape.infix:
        return (*opening, _Part.WHITE, _Part.NAME, _Part.WHITE, shape.infix, *_VALUE)
    listed = (_Part.WHITE, "[") if shape.listed else ()
    return (*opening, *listed, *_object(shape))


_VALUE: Parts = (_Part.WHITE, _Part.OBJECT)


def _object(shape: Shape) -> Parts:
    white = _Part.WHITE
    name = (white, "{", white, '"name"', white, ":", white, '"', _Part.NAME, '"')
    return (*name, white, ",", white, f'"{shape.key}"', white, ":", *_VALUE)


def _next(shape: Shape) -> Parts:
    """What leads from one call's arguments to those of the next in a list."""
    return (_Part.WHITE, "}", _Part.WHITE, ",", *_object(shape))


def _tail(shape: Shape) -> Parts:
    """What follows the last arguments."""
    white = _Part.WHITE
    end: Parts = () if shape.infix else (white, "}")
    listed: Parts = (white, "]") if shape.listed else ()
    closing: Parts = (white, shape.closing) if shape.closing else ()
    return (*end, *listed, *closing)
