"""Server-sent events as bytes (WHATWG HTML, section 9.2)."""

from __future__ import annotations

KEEPALIVE = b": keepalive\n\n"
"""A comment: clients skip it, and proxies see that the connection lives."""


def event(data: bytes) -> bytes:
    """One event. data: a single line, as compact JSON always is."""
    return b"data: %b\n\n" % data


def named(name: str, data: bytes) -> bytes:
    """One event with a name of its own."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


DONE = event(b"[DONE]")
"""What ends OpenAI's streams."""
