"""The OpenAPI documents, served."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from headrace import __version__
from headrace.api.anthropic import operations as anthropic
from headrace.api.openai import operations as openai
from headrace.api.openapi import Schema, make_document
from headrace.edge.responses import json_response


def inference_document() -> Schema:
    operations = *openai.OPERATIONS, *anthropic.OPERATIONS
    headers = openai.HEADERS | anthropic.HEADERS
    return make_document("Headrace", openai.ABOUT, __version__, operations, headers)


def serve_document(make: Callable[[], Schema]) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that answers with it, made when it is first asked for: it would hold up every
    start."""
    content = cache(lambda: msgspec.json.encode(make()))

    async def show(request: Request) -> Response:
        return json_response(content())

    return show
