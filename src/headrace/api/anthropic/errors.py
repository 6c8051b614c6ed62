"""Refusals and faults in Anthropic's shape. Their statuses are those of all APIs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from headrace.api.openai.errors import ApiError, ContextLengthExceeded

_TYPES: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}
INVALID, FAULT = "invalid_request_error", "api_error"
"""Of the other statuses: what a caller can mend, and what is ours."""

ErrorType = Annotated[str, Meta(extra_json_schema={"enum": [INVALID, *_TYPES.values(), FAULT]})]


class ErrorCode(msgspec.Struct, frozen=True):
    error_code: Literal["thread_not_found"]


class MessagesErrorDetail(msgspec.Struct, frozen=True):
    """message: names the field where one is at fault. details: what clients act on."""

    type: ErrorType
    message: str
    details: ErrorCode | UnsetType = UNSET


class MessagesError(msgspec.Struct, frozen=True, kw_only=True):
    """The body of an answer, or the data of a stream's event `error`."""

    type: Literal["error"] = "error"
    error: MessagesErrorDetail
    request_id: str


def error_body(error: ApiError, request_id: str) -> bytes:
    type = _TYPES.get(error.status, INVALID if error.status < 500 else FAULT)
    lost = error.detail.code == "thread_not_found"
    details = ErrorCode("thread_not_found") if lost else UNSET
    detail = MessagesErrorDetail(type, _message(error), details)
    return msgspec.json.encode(MessagesError(error=detail, request_id=request_id))


def _message(error: ApiError) -> str:
    """Anthropic's clients tell a full context by these words, and read the numbers in them."""
    if not isinstance(error, ContextLengthExceeded):
        return error.detail.message
    if error.prompt > error.limit:
        least = "" if error.exact else "at least "
        return f"prompt is too long: {least}{error.prompt} tokens > {error.limit} maximum"
    return (
        f"input length and `max_tokens` exceed context limit: {error.prompt} + {error.asked} > "
        f"{error.limit}, decrease input length or `max_tokens` and try again"
    )
