"""Refusals and faults in OpenAI's shape, each with its HTTP status and headers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import msgspec

INVALID = "invalid_request_error"
SERVER = "server_error"


class ErrorDetail(msgspec.Struct, frozen=True):
    """The fields OpenAI's clients read; all four are always there."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(msgspec.Struct, frozen=True):
    error: ErrorDetail


class ApiError(Exception):
    """An answer that is not a success. status: HTTP status; headers: beside the usual ones."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = INVALID,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.detail = ErrorDetail(message, type, param, code)
        self.headers = dict(headers or {})

    def body(self) -> bytes:
        """The JSON body; also what the data of an in-stream error event holds."""
        return msgspec.json.encode(ErrorBody(self.detail))


def invalid_request(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    return ApiError(400, message, param=param, code=code)


def invalid_api_key(message: str) -> ApiError:
    headers = {"www-authenticate": "Bearer"}
    return ApiError(401, message, code="invalid_api_key", headers=headers)


def permission_denied(message: str) -> ApiError:
    return ApiError(403, message, code="permission_denied")


def not_found(path: str) -> ApiError:
    return ApiError(404, f"There is nothing at {path[:200]}.", code="unknown_url")


def no_such(message: str) -> ApiError:
    return ApiError(404, message, code="not_found")


def thread_not_found() -> ApiError:
    """Of Anthropic's API."""
    message = (
        "Invalid 'thread': this server keeps no messages, so there is no thread to continue. Send "
        "the whole conversation."
    )
    return ApiError(404, message, param="thread", code="thread_not_found")


def conflict(message: str) -> ApiError:
    return ApiError(409, message, code="conflict")


def model_not_found(model: str, why: str = "") -> ApiError:
    """The same for one that does not exist and one that the caller may not use."""
    message = f"The model '{model[:200]}' does not exist{why and ': '}{why}."
    return ApiError(404, message, param="model", code="model_not_found")


def method_not_allowed(method: str, path: str, allowed: str) -> ApiError:
    message = f"{method[:20]} is not allowed on {path[:200]}; use {allowed}."
    return ApiError(405, message, code="method_not_allowed", headers={"allow": allowed})


def body_too_large(limit: int) -> ApiError:
    message = f"The request body is larger than the limit of {limit} bytes."
    return ApiError(413, message, code="request_too_large")


def malformed_body(reason: str) -> ApiError:
    return ApiError(400, f"The request body can't be read: {reason}.", code="malformed_body")


def unsupported_coding(coding: str, known: Iterable[str]) -> ApiError:
    names = ", ".join(known)
    message = f"The content encoding '{coding[:50]}' is not supported. Supported: {names}."
    headers = {"accept-encoding": names}
    return ApiError(415, message, code="unsupported_content_encoding", headers=headers)


def head_too_large(limit: str) -> ApiError:
    """limit: a number and what it counts."""
    message = f"The request line and headers are larger than the limit of {limit}."
    return ApiError(431, message, code="request_too_large")


def malformed_request(reason: str) -> ApiError:
    """What is no HTTP."""
    message = f"The request is not well-formed HTTP/1.1: {reason}."
    return ApiError(400, message, code="malformed_request")


def version_not_supported(version: str) -> ApiError:
    message = f"HTTP/{version} is not supported. Use HTTP/1.1."
    return ApiError(505, message, code="http_version_not_supported")


def transfer_coding_not_supported() -> ApiError:
    message = "The only transfer coding that is supported is 'chunked'."
    return ApiError(501, message, code="transfer_coding_not_supported")


def too_many_connections() -> ApiError:
    return unavailable("too_many_connections", "too many connections are open", 1.0)


def shutting_down() -> ApiError:
    return unavailable("draining", "the service is shutting down", 1.0)


def request_timeout(what: str) -> ApiError:
    """what: the part of the request that took too long."""
    return ApiError(408, f"{what} took too long to arrive.", code="request_timeout")


class ContextLengthExceeded(ApiError):
    """A prompt that does not fit the context with the answer behind it. It is told in each API's
    own words, since clients match them.

    limit, prompt, asked: tokens that the context holds, that the prompt has, and that may be
    generated; all in tokens. exact: whether the prompt was counted to its end; else it has at
    least so many tokens.
    """

    def __init__(
        self, limit: int, prompt: int, asked: int, param: str | None = None, *, exact: bool = True
    ) -> None:
        least = "" if exact else "at least "
        message = (
            f"This model's maximum context length is {limit} tokens. However, you requested "
            f"{least}{prompt + asked} tokens ({least}{prompt} in the prompt, {asked} for the "
            "completion). Please shorten the prompt or ask for fewer tokens."
        )
        super().__init__(400, message, param=param, code="context_length_exceeded")
        self.limit, self.prompt, self.asked, self.exact = limit, prompt, asked, exact


def overloaded(reason: str, message: str, retry_after: float) -> ApiError:
    return _busy(529, "server_is_overloaded", reason, message, retry_after)


def unavailable(reason: str, message: str, retry_after: float) -> ApiError:
    return _busy(503, "service_unavailable", reason, message, retry_after)


def rate_limited(message: str, type: str, *, after: int | None, final: bool) -> ApiError:
    """type: what there was too much of: "requests", "tokens" or "insufficient_quota", of money.
    after: milliseconds from which it is worth trying again, None if it never is; final: a client
    should not try again by itself."""
    headers = {} if after is None else _retry_after(after / 1000)
    if final:
        headers["x-should-retry"] = "false"
    code = type if type == "insufficient_quota" else "rate_limit_exceeded"
    return ApiError(429, message, type=type, code=code, headers=headers)


def engine_failed(message: str) -> ApiError:
    return ApiError(500, f"The engine failed: {message}", type=SERVER, code="engine_error")


def internal_error(request_id: str) -> ApiError:
    message = f"Something went wrong on our side. Please quote request {request_id}."
    return ApiError(500, message, type=SERVER, code="internal_error")


def _busy(status: int, code: str, reason: str, message: str, retry_after: float) -> ApiError:
    headers = _retry_after(retry_after)
    text = f"{message[:1].upper()}{message[1:]} ({reason}). Please try again later."
    return ApiError(status, text, type=SERVER, code=code, headers=headers)


def _retry_after(seconds: float) -> dict[str, str]:
    return {
        "retry-after": str(math.ceil(seconds)),
        "retry-after-ms": str(math.ceil(seconds * 1000)),
    }
