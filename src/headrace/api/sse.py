"""Server-sent events as bytes (WHATWG HTML, section 9.2)."""

from __future__ import annotations

KEEPALIVE = b": keepalive\n\n"
"""A comment: clients skip it, and proxies see that the connection lives."""


def event(data: bytes) -> bytes:
    """One event. data: a single line, as compact JSON always is."""
    return b"data: %b\n\n" % data


DONE = event(b"[DONE]")
"""What ends OpenAI's streams."""
