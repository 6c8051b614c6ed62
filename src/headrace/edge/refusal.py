"""A request that the server itself refuses: the application answers the refusal in its place."""

from __future__ import annotations

from starlette.types import Scope

from headrace.api.openai.errors import ApiError

_KEY = "headrace.refusal"


def refuse(scope: Scope, error: ApiError) -> None:
    scope[_KEY] = error


def refusal_of(scope: Scope) -> ApiError | None:
    """None if the request is to be served."""
    found: ApiError | None = scope.get(_KEY)
    return found
