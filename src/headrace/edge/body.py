"""Reading a request body without trusting its length."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.types import Receive, Scope

from headrace.api.openai.errors import body_too_large
from headrace.edge.content_coding import Inflater
from headrace.edge.headers import header

Grow = Callable[[int], Awaitable[None]]
"""Told how many bytes a body has, or is to have, as it grows. It raises what refuses the body."""


class ClientGone(Exception):
    """The client left before its request was whole."""


def is_coded(scope: Scope) -> bool:
    """Whether the body has a content coding, so that its length tells little of its size."""
    coding = header(scope, b"content-encoding")
    return coding is not None and coding.strip().lower() != "identity"


def announced(scope: Scope) -> int:
    """Bytes that will be sent as the body, as its head says; 0 if it doesn't."""
    declared = (header(scope, b"content-length") or "").strip().lstrip("0")
    return int(declared[:19]) if declared.isdecimal() else 0


async def _nothing(size: int) -> None:
    """Of a body that counts nowhere."""


async def read_body(scope: Scope, receive: Receive, limit: int, grow: Grow = _nothing) -> bytes:
    """The whole body, of at most `limit` bytes as it was sent and as it is when inflated, whether
    or not its length was declared. grow: is told of the whole length at once if that was declared.
    What was inflated is not kept as it was sent, so of both lengths it is told the greater one.

    Raises ApiError (413) as soon as it is known to be larger, ApiError (415, 400) for a content
    coding that is not known or not kept to, what `grow` raises, and ClientGone.
    """
    if announced(scope) > limit:
        raise body_too_large(limit)
    await grow(announced(scope))
    coding = header(scope, b"content-encoding") or ""
    inflater = Inflater(coding) if is_coded(scope) else None
    body = bytearray()  # tiny parts would each take more than their bytes
    sent = size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part, more = message.get("body", b""), message.get("more_body", False)
        sent += len(part)
        if sent > limit:
            raise body_too_large(limit)
        await grow(max(sent, size))
        if inflater is None:
            body += part
        else:
            inflater.feed(part)
            while piece := inflater.inflate():
                size += len(piece)
                if size > limit:
                    raise body_too_large(limit)
                await grow(max(sent, size))
                body += piece
                await asyncio.sleep(0)
        if not more:
            break
    if inflater is not None:
        inflater.end()
    return bytes(body)
