"""The OpenAPI documents, served."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from headrace import __version__
from headrace.api.openai.operations import ABOUT, HEADERS, OPERATIONS
from headrace.api.openapi import Schema, make_document
from headrace.edge.responses import json_response


def inference_document() -> Schema:
    return make_document("Headrace", ABOUT, __version__, OPERATIONS, HEADERS)


def serve_document(make: Callable[[], Schema]) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that answers with it, made when it is first asked for: it would hold up every
    start."""
    content = cache(lambda: msgspec.json.encode(make()))

    async def show(request: Request) -> Response:
        return json_response(content())

    return show
