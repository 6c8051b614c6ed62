"""The OpenAPI documents, served."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from headrace import __version__
from headrace.api.openai.operations import ABOUT, HEADERS, OPERATIONS
from headrace.api.openapi import Schema, make_document
from headrace.edge.responses import json_response


def inference_document() -> Schema:
    return make_document("Headrace", ABOUT, __version__, OPERATIONS, HEADERS)


def serve_document(document: Schema) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that answers with it."""
    content = msgspec.json.encode(document)

    async def show(request: Request) -> Response:
        return json_response(content)

    return show
