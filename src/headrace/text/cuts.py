"""Where a text may be cut so that its parts have the tokens of the whole."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator
from typing import Literal

PART = 16_384
"""Characters of a part, at most, wherever the text has a place to be cut. Their tokens take some
20 ms of one core at most."""

LONGEST_PART = 131_072
"""Characters of a part that has no place to be cut. Their tokens take some 200 ms of one core and
64 MB at most."""

_BLOCK = 1024
_LETTERS = "A-Za-z\u0400-\u0481\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fa5\uac00-\ud7a3"
_BROKEN = "\ufffd"  # of a character that a token has only a part of
_STARTS = (
    " \n\t",
    string.punctuation.replace("'", ""),
    string.digits,
    "\u3001\u3002\uff01\uff08\uff09\uff0c\uff1a\uff1b\uff1f",  # of Chinese and Japanese
)


class Unbroken(ValueError):
    """A text has no place to be cut within LONGEST_PART characters."""

    def __init__(self) -> None:
        super().__init__(
            f"a stretch of more than {LONGEST_PART} characters has no place where its tokens can "
            "be told apart, such as a letter before a space"
        )


class Cuts:
    """Cuts texts before a space, a digit or a mark that follows a letter, and before a space or a
    mark that follows a digit, unless a token of the vocabulary has the two side by side. There
    two tokens meet in every text:

    - Pre-tokenizers (`pretokenizers.py`) begin a word there. They read from left to right, and
      how they cut what is before that place does not depend on what follows. That is why
      apostrophes are left out: "'s" is a word of its own or not.
    - Where there is none, no merge of byte pairs passes that place, since none of the tokens has
      it inside. So the merges on both sides are those that either side alone has.
    - NFC joins none of those characters with the one before.
    """

    def __init__(
        self,
        pieces: Iterable[bytes],
        *,
        prefix: Literal["", "always", "missing"] = "",
        taken_whole: Iterable[str] = (),
    ) -> None:
        """pieces: the bytes of every token that text can become. prefix: whether the tokenizer
        puts a space before a text: never, always, or where the text does not begin with one.
        taken_whole: texts that become tokens before anything else is looked at."""
        starts = " " if prefix else "".join(_STARTS)
        self._skipped = len(" ") if prefix == "always" else 0
        ahead = ""
        if prefix == "always":  # it puts a space there again, if a word follows
            firsts = "".join(text[:1] for text in taken_whole)
            ahead = f"(?=[{_LETTERS}])(?![{re.escape(firsts)}])" if firsts else f"(?=[{_LETTERS}])"
        pieces = [piece for piece in pieces if len(piece) > 1]
        pairs = any(re.search(rb"[0-9][0-9]", piece) for piece in pieces)
        marks = re.sub("[0-9]", "", starts) if pairs else starts
        rules = [
            f"(?<=[{before}])[{re.escape(apart)}]{ahead}"
            for before, begun in ((_LETTERS, starts), ("0-9", marks))
            if (apart := _apart(pieces, before, begun))
        ]
        self._places = re.compile("|".join(rules) or "(?!)")

    def parts(self, text: str) -> Iterator[str]:
        """The text in parts. Raises Unbroken."""
        start, end = 0, len(text) - 1
        while end - start >= PART:
            stop = self._last(text, start + 1, start + PART)
            if stop is None:
                found = self._places.search(text, start + PART, min(end, start + LONGEST_PART))
                stop = found.start() if found else None
            if stop is None and end - start >= LONGEST_PART:
                raise Unbroken
            if stop is None:
                break
            yield text[start:stop]
            start = stop + self._skipped
        yield text[start:]

    def _last(self, text: str, start: int, stop: int) -> int | None:
        """The last place between two positions."""
        while stop > start:
            begin = max(start, stop - _BLOCK)
            # One character more, for what a place has behind it.
            found = [f.start() for f in self._places.finditer(text, begin, stop + 1)]
            if places := [place for place in found if place < stop]:
                return places[-1]
            stop = begin
        return None


class Whole:
    """Cuts nothing: of a tokenizer of which it is not known where it could."""

    def parts(self, text: str) -> Iterator[str]:
        """The text. Raises Unbroken if that is too long for one part."""
        if len(text) > LONGEST_PART:
            raise Unbroken
        yield text


def _apart(pieces: list[bytes], before: str, starts: str) -> str:
    """Those of the characters that no piece has behind one of the letters, or begins there."""
    text = "\0".join(piece.decode("utf-8", "replace") for piece in pieces)
    inside = set(re.findall(f"(?<=[{before}{_BROKEN}])[{re.escape(starts)}]", text))
    begun = {s.encode()[:size]: s for s in starts for size in range(1, len(s.encode()))}
    behind = re.compile(f"[{before}{_BROKEN}]\\Z")
    for piece in pieces:
        for size in (1, 2):
            end = piece[-size:]
            if end in begun and behind.search(piece[:-size].decode("utf-8", "replace")):
                inside.update(s for s in starts if s.encode().startswith(end))
    return "".join(start for start in starts if start not in inside)
