"""Headers as ASGI has them: bytes, whose names are in lower case."""

from __future__ import annotations

from starlette.types import Scope

Headers = dict[bytes, bytes]


def header(scope: Scope, name: bytes) -> str | None:
    """The request's first header of that name, without building a mapping of them."""
    for key, value in scope["headers"]:
        if key == name:
            text: str = value.decode("latin-1")
            return text
    return None
