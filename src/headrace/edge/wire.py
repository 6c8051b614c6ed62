"""How an API tells what stands beside its answers: faults, limits, and that a stream lives."""

from __future__ import annotations

import time
from typing import Protocol

from headrace.api import sse
from headrace.api.anthropic import errors as anthropic
from headrace.api.anthropic.rate_limits import moment
from headrace.api.openai.errors import ApiError
from headrace.api.openai.rate_limits import duration


class Wire(Protocol):
    """Of one API. beat: what a quiet stream is sent."""

    @property
    def beat(self) -> bytes: ...

    def headers(self, request_id: str) -> dict[str, str]:
        """Of every answer, beside those of all APIs."""
        ...

    def error(self, error: ApiError, request_id: str) -> bytes:
        """The body of an answer that is not a success."""
        ...

    def fault(self, error: ApiError, request_id: str) -> bytes:
        """The last event of a stream that did not go well."""
        ...

    def limit(self, group: str, limit: int, remaining: int, reset: int) -> dict[str, str]:
        """Headers of a group's tightest limit. reset: milliseconds until it is whole again."""
        ...


class _OpenAI:
    beat = sse.KEEPALIVE

    def headers(self, request_id: str) -> dict[str, str]:
        return {}

    def error(self, error: ApiError, request_id: str) -> bytes:
        return error.body()

    def fault(self, error: ApiError, request_id: str) -> bytes:
        return sse.event(error.body())

    def limit(self, group: str, limit: int, remaining: int, reset: int) -> dict[str, str]:
        return {
            f"x-ratelimit-limit-{group}": str(limit),
            f"x-ratelimit-remaining-{group}": str(remaining),
            f"x-ratelimit-reset-{group}": duration(reset),
        }


class _Anthropic:
    beat = sse.named("ping", b'{"type":"ping"}')

    def headers(self, request_id: str) -> dict[str, str]:
        return {"request-id": request_id}

    def error(self, error: ApiError, request_id: str) -> bytes:
        return anthropic.error_body(error, request_id)

    def fault(self, error: ApiError, request_id: str) -> bytes:
        return sse.named("error", anthropic.error_body(error, request_id))

    def limit(self, group: str, limit: int, remaining: int, reset: int) -> dict[str, str]:
        return {
            f"anthropic-ratelimit-{group}-limit": str(limit),
            f"anthropic-ratelimit-{group}-remaining": str(remaining),
            f"anthropic-ratelimit-{group}-reset": moment(time.time() + reset / 1000),
        }


OPENAI: Wire = _OpenAI()
ANTHROPIC: Wire = _Anthropic()


def wire_of(path: str) -> Wire:
    return ANTHROPIC if path.startswith("/v1/messages") else OPENAI
