"""Reading a request body without trusting its length."""

from __future__ import annotations

from starlette.types import Receive, Scope

from headrace.api.openai.errors import body_too_large
from headrace.edge.headers import header


class ClientGone(Exception):
    """The client left before its request was whole."""


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The whole body, of at most `limit` bytes, whether or not its length was declared.

    Raises ApiError (413) as soon as it is known to be larger, and ClientGone.
    """
    declared = header(scope, b"content-length") or ""
    if declared.isdecimal() and int(declared) > limit:
        raise body_too_large(limit)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise body_too_large(limit)
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)
