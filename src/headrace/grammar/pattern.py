"""Regular expressions as ECMA-262 writes them, in the one dialect that compiles exactly.

What a pattern means differs between engines (white space, dots, anchors in the middle, escapes of
letters). So it is parsed here, everything that is not a plain regular language is refused, and what
is left is written out in a form that leaves nothing to interpret: literals, classes of code points,
groups and repetitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace.grammar.errors import GrammarError

MAX_LENGTH = 20_000
MAX_DEPTH = 64
MAX_REPEAT = 10_000
MAX_UNLIKE = 200

_ANYTHING = "(?s:.*)"
_LAST = 0x10FFFF
_Ranges = list[tuple[int, int]]

_DIGIT: _Ranges = [(0x30, 0x39)]
_WORD: _Ranges = [(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)]
_SPACE: _Ranges = [
    (0x09, 0x0D),
    (0x20, 0x20),
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
    (0xFEFF, 0xFEFF),
]
_LINE_ENDS: _Ranges = [(0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)]
_SURROGATES: _Ranges = [(0xD800, 0xDFFF)]
# Characters that our JSON strings have no spelling for: those that only \uXXXX could write.
_UNSPELLED: _Ranges = [(0x00, 0x07), (0x0B, 0x0B), (0x0E, 0x1F), (0x7F, 0x7F)]

UNSPELLED = frozenset(chr(code) for low, high in _UNSPELLED for code in range(low, high + 1))

_CONTROLS = {"t": 0x09, "n": 0x0A, "v": 0x0B, "f": 0x0C, "r": 0x0D}
_QUANTIFIER = re.compile(r"[*+?]|\{([0-9]+)(?:(,)([0-9]*))?\}")
_HALF_OPEN = re.compile(r"\{,[0-9]*\}")
_GROUP = re.compile(r"\((?:\?:|\?P?<[A-Za-z_][A-Za-z0-9_]*>|(?!\?))")
_CODE = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|u\{([0-9A-Fa-f]{1,6})\}")
_LOW_SURROGATE = re.compile(r"\\u([dD][c-fC-F][0-9A-Fa-f]{2})")
# General categories, and scripts and properties that engines agree on.
_PROPERTY = re.compile(
    r"\{((?:General_Category=|gc=)?(?:L[ultmo]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?"
    r"|Letter|Uppercase_Letter|Lowercase_Letter|Mark|Number|Decimal_Number|Punctuation|Symbol"
    r"|Separator)|Alphabetic|Uppercase|Lowercase|White_Space"
    r"|(?:Script=|sc=)(?:Latin|Greek|Cyrillic|Han|Hiragana|Katakana|Arabic|Hebrew|Thai|Hangul))\}"
)


def search_pattern(pattern: str) -> str:
    """For texts in which the pattern is found, to match from end to end, as JSON schema has it.

    Characters that a JSON string of ours cannot spell are left out. Raises GrammarError.
    """
    return _Parser(pattern, spelled=True).whole(_ANYTHING)


def whole_pattern(pattern: str) -> str:
    """For texts that match the pattern from end to end. Raises GrammarError."""
    return _Parser(pattern, spelled=False).whole("")


def literal_pattern(text: str) -> str:
    """For that text alone."""
    return "".join(map(_literal, map(ord, text)))


_LITERAL = r"(?:[A-Za-z0-9 _]|\\x\{[0-9a-f]+\})*"
_LIST = re.compile(rf"\((?:\?:)?({_LITERAL}(?:\|{_LITERAL})*)\)|({_LITERAL})")


def listed_texts(written: str) -> list[str] | None:
    """The texts that a pattern of ours lists one by one, None for any other pattern."""
    match = _LIST.fullmatch(written)
    if match is None:
        return None
    texts = (match[1] if match[1] is not None else match[2]).split("|")
    return [
        re.sub(r"\\x\{([0-9a-f]+)\}", lambda code: chr(int(code[1], 16)), text) for text in texts
    ]


def unlike_pattern(texts: Iterable[str]) -> str:
    """For all texts but those, of characters that a JSON string of ours can spell. Raises
    GrammarError where they have too many characters."""
    root: _Tree = {}
    for text in texts:
        if len(text) > MAX_UNLIKE:
            raise GrammarError(
                f"Texts that others differ from have at most {MAX_UNLIKE} characters."
            )
        tree = root
        for char in text:
            tree = tree.setdefault(char, {})
        tree[_END] = {}
    return _unlike(root)


_Tree = dict[str, "_Tree"]
_END = ""


def _unlike(tree: _Tree) -> str:
    following = sorted(char for char in tree if char != _END)
    taken = [(ord(char), ord(char)) for char in following]
    other = "".join(map(_span, _without(_without([(0, _LAST)], taken), _SURROGATES + _UNSPELLED)))
    ways = [
        f"[{other}]{_ANYTHING}",
        *(_literal(ord(char)) + _unlike(tree[char]) for char in following),
    ]
    return f"(?:{'|'.join(ways)}){'' if _END in tree else '?'}"


@dataclass(slots=True)
class _Group:
    """Alternatives of items; an item is "^", "$", a group, or a tuple of what is written."""

    alternatives: list[list[_Item]] = field(default_factory=lambda: [[]])
    repeats: int = 1  # the most that counts inside it come to

    def anchored(self) -> bool:
        return any(
            item in ("^", "$") or (isinstance(item, _Group) and item.anchored())
            for items in self.alternatives
            for item in items
        )


_Item = str | tuple[str] | _Group


class _Parser:
    def __init__(self, pattern: str, *, spelled: bool) -> None:
        if len(pattern) > MAX_LENGTH:
            raise GrammarError(f"A pattern has at most {MAX_LENGTH} characters.")
        self._text = pattern
        self._at = 0
        self._repeats = 1  # the most that counts so far come to, in the group at hand
        self._forbidden = _SURROGATES + _UNSPELLED if spelled else _SURROGATES

    def whole(self, around: str) -> str:
        """around: what may stand before and behind where no anchor forbids it."""
        group = self._group(0)
        if self._at < len(self._text):
            raise self._fault("a parenthesis closes nothing")
        return self._write(group, around, around)

    def _group(self, depth: int) -> _Group:
        if depth > MAX_DEPTH:
            raise GrammarError(f"A pattern's groups nest at most {MAX_DEPTH} deep.")
        group = _Group()
        outside, self._repeats = self._repeats, 1
        while self._at < len(self._text) and self._text[self._at] != ")":
            if self._take("|"):
                group.alternatives.append([])
            else:
                group.alternatives[-1].append(self._item(depth))
        group.repeats = self._repeats
        self._repeats = max(outside, group.repeats)
        return group

    def _item(self, depth: int) -> _Item:
        text = self._text
        if match := _GROUP.match(text, self._at):
            self._at = match.end()
            item: _Item = self._group(depth + 1)
            if not self._take(")"):
                raise self._fault("a parenthesis is not closed")
        elif text[self._at] in "^$":
            self._at += 1
            item = text[self._at - 1]
        else:
            item = (self._atom(),)
        return self._repeated(item)

    def _atom(self) -> str:
        char = self._text[self._at]
        if char == "(":
            raise self._fault("lookarounds and flags are not supported")
        if char in "*+?" or (char == "{" and _QUANTIFIER.match(self._text, self._at)):
            raise self._fault("there is nothing to repeat")
        if _HALF_OPEN.match(self._text, self._at):
            raise self._fault("engines differ about a repetition without a lower bound")
        self._at += 1
        if char == ".":
            return self._class(_without([(0, _LAST)], _LINE_ENDS), [], negated=False)
        if char == "[":
            return self._bracketed()
        if char == "\\":
            found = self._escape()
            return self._class(*found, negated=False)
        return self._class([(ord(char), ord(char))], [], negated=False)

    def _repeated(self, item: _Item) -> _Item:
        match = _QUANTIFIER.match(self._text, self._at)
        if match is None:
            return item
        if isinstance(item, str) or (isinstance(item, _Group) and item.anchored()):
            raise self._fault("an anchor cannot be repeated")
        low, comma, high = match.groups()
        least = most = 0
        if low is not None:
            least, most = int(low[:9]), int((high or "0")[:9])
            if comma and high and least > most:
                raise self._fault("a repetition's bounds are the wrong way round")
            times = f"{{{least}{',' if comma else ''}{most if high else ''}}}"
        else:
            times = match[0]
        times_inside = item.repeats if isinstance(item, _Group) else 1
        counted = times_inside * (max(least, most, 1) if low is not None else 1)
        if counted > MAX_REPEAT:
            raise self._fault(f"repetitions inside of each other count at most to {MAX_REPEAT}")
        self._repeats = max(self._repeats, counted)
        self._at = match.end()
        self._take("?")  # a lazy one matches the same texts
        if _QUANTIFIER.match(self._text, self._at):
            raise self._fault("there is nothing to repeat")
        inner = self._write(item, None, None) if isinstance(item, _Group) else item[0]
        return (f"(?:{inner}){times}",)

    def _bracketed(self) -> str:
        negated = self._take("^")
        ranges: _Ranges = []
        raw: list[str] = []
        while not self._take("]"):
            low, names = self._member()
            raw += names
            if self._text[self._at : self._at + 1] == "-" and self._text[
                self._at + 1 : self._at + 2
            ] not in ("]", ""):
                self._at += 1
                high, others = self._member()
                if names or others or not (_single(low) and _single(high)):
                    raise self._fault("a range goes from one character to another")
                if low[0][0] > high[0][0]:
                    raise self._fault("a range is the wrong way round")
                low = [(low[0][0], high[0][0])]
            ranges += low
        return self._class(ranges, raw, negated=negated)

    def _member(self) -> tuple[_Ranges, list[str]]:
        if self._at >= len(self._text):
            raise self._fault("a class is not closed")
        char = self._text[self._at]
        self._at += 1
        if char != "\\":
            return [(ord(char), ord(char))], []
        if self._take("b"):
            return [(8, 8)], []
        return self._escape()

    def _escape(self) -> tuple[_Ranges, list[str]]:
        """Behind a backslash: the characters it stands for, and properties."""
        char = self._text[self._at : self._at + 1]
        self._at += 1
        if char in ("d", "w", "s"):
            return {"d": _DIGIT, "w": _WORD, "s": _SPACE}[char], []
        if char in ("D", "W", "S"):
            return _without([(0, _LAST)], {"D": _DIGIT, "W": _WORD, "S": _SPACE}[char]), []
        if char in ("p", "P"):
            match = _PROPERTY.match(self._text, self._at)
            if match is None:
                raise self._fault("this property of characters is not supported")
            self._at = match.end()
            return [], [f"\\{char}{{{match[1]}}}"]
        code = self._code(char)
        return [(code, code)], []

    def _code(self, char: str) -> int:
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char == "0" and not self._text[self._at : self._at + 1].isdigit():
            return 0
        if char == "c" and re.match("[A-Za-z]", self._text[self._at : self._at + 1]):
            self._at += 1
            return ord(self._text[self._at - 1]) % 32
        if match := _CODE.match(self._text, self._at - 1):
            self._at = match.end()
            code = int(match[1] or match[2] or match[3], 16)
            low = _LOW_SURROGATE.match(self._text, self._at)
            if 0xD800 <= code < 0xDC00 and low:
                self._at = low.end()
                code = 0x10000 + ((code - 0xD800) << 10) + int(low[1], 16) - 0xDC00
            if code > _LAST:
                raise self._fault("there is no such character")
            return code
        if not char or char.isalnum():
            what = "back-references are" if char.isdigit() or char == "k" else "this escape is"
            raise self._fault(f"{what} not supported")
        return ord(char)

    def _class(self, ranges: _Ranges, raw: list[str], *, negated: bool) -> str:
        if raw:
            inner = "".join(map(_span, ranges)) + "".join(raw)
            return f"[{'^' if negated else ''}{inner}]"
        if negated:
            ranges = _without([(0, _LAST)], ranges)
        ranges = _without(ranges, self._forbidden)
        if not ranges:
            raise self._fault("no character that a text can have matches here")
        if _single(ranges):
            return _literal(ranges[0][0])
        return f"[{''.join(map(_span, ranges))}]"

    def _write(self, group: _Group, before: str | None, behind: str | None) -> str:
        """before, behind: what may stand there unless an anchor forbids it; None where it is not
        the edge of everything, and an anchor would depend on what is beside it."""
        written = [self._sequence(items, before, behind) for items in group.alternatives]
        return written[0] if len(written) == 1 else f"(?:{'|'.join(written)})"

    def _sequence(self, items: list[_Item], before: str | None, behind: str | None) -> str:
        start, stop = 0, len(items)
        while before is not None and start < stop and items[start] == "^":
            before, start = "", start + 1
        while behind is not None and start < stop and items[stop - 1] == "$":
            behind, stop = "", stop - 1
        written = []
        for place in range(start, stop):
            item = items[place]
            if isinstance(item, tuple):
                written.append(item[0])
            elif isinstance(item, str):
                raise GrammarError("An anchor in the middle of a pattern is not supported.")
            elif not item.anchored():
                written.append(self._write(item, None, None))
            else:
                first, last = place == start, place == stop - 1
                written.append(
                    self._write(item, before if first else None, behind if last else None)
                )
                before, behind = "" if first else before, "" if last else behind
        return (before or "") + "".join(written) + (behind or "")

    def _take(self, char: str) -> bool:
        found = self._text[self._at : self._at + 1] == char
        self._at += found
        return found

    def _fault(self, what: str) -> GrammarError:
        return GrammarError(f"The pattern is refused at character {self._at}: {what}.")


def _single(ranges: _Ranges) -> bool:
    return len(ranges) == 1 and ranges[0][0] == ranges[0][1]


def _without(ranges: _Ranges, taken: _Ranges) -> _Ranges:
    """Merged and in order."""
    left: _Ranges = []
    for low, high in sorted(ranges):
        if left and low <= left[-1][1] + 1:
            left[-1] = (left[-1][0], max(high, left[-1][1]))
        else:
            left.append((low, high))
    for low, high in taken:
        left = [
            part
            for start, stop in left
            for part in ((start, min(stop, low - 1)), (max(start, high + 1), stop))
            if part[0] <= part[1]
        ]
    return left


def _span(span: tuple[int, int]) -> str:
    low, high = span
    return f"\\x{{{low:x}}}" if low == high else f"\\x{{{low:x}}}-\\x{{{high:x}}}"


def _literal(code: int) -> str:
    char = chr(code)
    return char if char.isascii() and (char.isalnum() or char in " _") else f"\\x{{{code:x}}}"
