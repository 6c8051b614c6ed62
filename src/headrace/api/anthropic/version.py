"""The version of Anthropic's API that a caller speaks."""

from __future__ import annotations

from headrace.api.openai.errors import invalid_request

HEADER = "anthropic-version"
VERSIONS = ("2023-06-01", "2026-10-21")
"""As far as this server goes, the second is the first without parameters of the draw."""


def check_version(asked: str | None) -> None:
    """Absent is as good as any that there is. Raises ApiError for others: streams and answers of
    the oldest differ, and nobody knows what the next will mean."""
    if asked is not None and asked not in VERSIONS:
        known = " and ".join(VERSIONS)
        raise invalid_request(f"Invalid header '{HEADER}': this server knows {known}.", HEADER)
