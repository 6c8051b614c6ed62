"""How an API tells what stands beside its answers: faults, limits, and that a stream lives."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from headrace.api import sse
from headrace.api.anthropic import rate_limits as anthropic
from headrace.api.anthropic.errors import error_body
from headrace.api.anthropic.version import HEADER
from headrace.api.openai import rate_limits as openai
from headrace.api.openai.errors import ApiError
from headrace.edge.headers import Headers


class Wire(Protocol):
    """Of one API. beat: what a quiet stream is sent."""

    @property
    def beat(self) -> bytes: ...

    def headers(self, request_id: str) -> Headers:
        """Of every answer, beside those of all APIs."""
        ...

    def error(self, error: ApiError, request_id: str) -> bytes:
        """The body of an answer that is not a success."""
        ...

    def fault(self, error: ApiError, request_id: str) -> bytes:
        """The last event of a stream that did not go well."""
        ...

    def limit(self, group: str, limit: int, remaining: int, reset: int) -> Headers:
        """Headers of a group's tightest limit. reset: milliseconds until it is whole again."""
        ...


class _OpenAI:
    beat = sse.KEEPALIVE

    def headers(self, request_id: str) -> Headers:
        return {}

    def error(self, error: ApiError, request_id: str) -> bytes:
        return error.body()

    def fault(self, error: ApiError, request_id: str) -> bytes:
        return sse.event(error.body())

    def limit(self, group: str, limit: int, remaining: int, reset: int) -> Headers:
        of_limit, of_remaining, of_reset = _OPENAI_NAMES[group]
        return {
            of_limit: b"%d" % limit,
            of_remaining: b"%d" % remaining,
            of_reset: openai.duration(reset).encode(),
        }


class _Anthropic:
    beat = sse.named("ping", b'{"type":"ping"}')

    def headers(self, request_id: str) -> Headers:
        return {b"request-id": request_id.encode()}

    def error(self, error: ApiError, request_id: str) -> bytes:
        return error_body(error, request_id)

    def fault(self, error: ApiError, request_id: str) -> bytes:
        return sse.named("error", error_body(error, request_id))

    def limit(self, group: str, limit: int, remaining: int, reset: int) -> Headers:
        of_limit, of_remaining, of_reset = _ANTHROPIC_NAMES[group]
        return {
            of_limit: b"%d" % limit,
            of_remaining: b"%d" % remaining,
            of_reset: anthropic.moment(time.time() + reset / 1000).encode(),
        }


def _encoded(names: Mapping[str, Sequence[str]]) -> dict[str, list[bytes]]:
    return {group: [name.encode() for name in three] for group, three in names.items()}


_VERSION = HEADER.encode()
_OPENAI_NAMES = _encoded(openai.NAMES)
_ANTHROPIC_NAMES = _encoded(anthropic.NAMES)

OPENAI: Wire = _OpenAI()
ANTHROPIC: Wire = _Anthropic()


def wire_of(path: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> Wire:
    """Both APIs have their models under one path: there it is Anthropic's for who names its
    version."""
    if path.startswith("/v1/models"):
        return ANTHROPIC if any(name == _VERSION for name, _ in headers) else OPENAI
    return ANTHROPIC if path.startswith("/v1/messages") else OPENAI
