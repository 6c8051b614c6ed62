"""Request bodies that their client compressed (RFC 9110, section 8.4)."""

from __future__ import annotations

import zlib

from headrace.api.openai.errors import malformed_body, unsupported_coding

_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""By the name of a coding, what zlib calls its container."""

PIECE = 256 << 10
"""Bytes that are inflated at most before others have their turn."""


class Inflater:
    """Inflates one body, piece by piece, and never more of it than is asked for.

    coding: the value of `Content-Encoding`. Raises ApiError (415) for one that is not known.
    """

    def __init__(self, coding: str) -> None:
        window = _WINDOWS.get(coding.strip().lower())
        if window is None:
            raise unsupported_coding(coding, _WINDOWS)
        self._coding = coding.strip().lower()
        self._zlib = zlib.decompressobj(window)
        self._left = b""

    def feed(self, data: bytes) -> None:
        """More of what was sent. What was fed before must be inflated by now."""
        self._left = data

    def inflate(self) -> bytes:
        """At most PIECE bytes; none if there is nothing more in what was fed. Raises ApiError
        (400) for what is not of that coding."""
        if not self._left:
            return b""
        try:
            piece = self._zlib.decompress(self._left, PIECE)
        except zlib.error as error:
            raise malformed_body(f"it is not valid {self._coding}") from error
        self._left = self._zlib.unconsumed_tail
        if self._zlib.unused_data:
            raise malformed_body(f"something follows the end of its {self._coding}")
        return piece

    def end(self) -> None:
        """Nothing more was sent. Raises ApiError (400) if there should have been."""
        if not self._zlib.eof:
            raise malformed_body(f"its {self._coding} is cut off")
