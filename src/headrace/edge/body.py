"""Reading a request body without trusting its length."""

from __future__ import annotations

import asyncio

from starlette.types import Receive, Scope

from headrace.api.openai.errors import body_too_large
from headrace.edge.content_coding import Inflater
from headrace.edge.headers import header


class ClientGone(Exception):
    """The client left before its request was whole."""


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The whole body, of at most `limit` bytes as it was sent and as it is when inflated, whether
    or not its length was declared.

    Raises ApiError (413) as soon as it is known to be larger, ApiError (415, 400) for a content
    coding that is not known or not kept to, and ClientGone.
    """
    declared = (header(scope, b"content-length") or "").strip().lstrip("0")
    if declared.isdecimal() and (len(declared) > 18 or int(declared) > limit):
        raise body_too_large(limit)
    coding = header(scope, b"content-encoding")
    inflater = None if coding is None or coding.strip().lower() == "identity" else Inflater(coding)
    parts: list[bytes] = []
    sent = size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part, more = message.get("body", b""), message.get("more_body", False)
        sent += len(part)
        if sent > limit:
            raise body_too_large(limit)
        if inflater is None:
            parts.append(part)
        else:
            inflater.feed(part)
            while piece := inflater.inflate():
                size += len(piece)
                if size > limit:
                    raise body_too_large(limit)
                parts.append(piece)
                await asyncio.sleep(0)
        if not more:
            break
    if inflater is not None:
        inflater.end()
    return b"".join(parts)
