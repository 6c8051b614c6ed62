"""The version of Anthropic's API that a caller speaks."""

from __future__ import annotations

from headrace.api.openai.errors import invalid_request

HEADER = "anthropic-version"
VERSION = "2023-06-01"


def check_version(asked: str | None) -> None:
    """Absent is as good as the one there is. Raises ApiError for any other, whose streams and
    answers differ."""
    if asked not in (None, VERSION):
        raise invalid_request(f"Invalid header '{HEADER}': this server speaks {VERSION}.", HEADER)
