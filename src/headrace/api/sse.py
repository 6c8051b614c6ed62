"""Server-sent events as bytes (WHATWG HTML, section 9.2)."""

from __future__ import annotations

_LINE_BREAKS = [
    (character.encode(), f"\\u{ord(character):04x}".encode())
    for character in ("\u0085", "\u2028", "\u2029")
]
"""What str.splitlines, and readers like it, take for line breaks and JSON encoders leave as it is.
The other such characters are control characters, which JSON always escapes."""

KEEPALIVE = b": keepalive\n\n"
"""A comment: clients skip it, and proxies see that the connection lives."""


def event(data: bytes) -> bytes:
    """One event. data: a single line, as compact JSON always is."""
    return b"data: %b\n\n" % data


def named(name: str, data: bytes) -> bytes:
    """One event with a name of its own."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


def plain_lines(events: bytes) -> bytes:
    """The same events, in whose JSON nothing is a line break to any reader."""
    if not events.isascii():
        for raw, escape in _LINE_BREAKS:
            events = events.replace(raw, escape)
    return events


DONE = event(b"[DONE]")
"""What ends OpenAI's streams."""
