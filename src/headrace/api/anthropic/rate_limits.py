"""Rate limits as Anthropic tells them, in headers of every answer."""

from __future__ import annotations

from datetime import UTC, datetime

HEADERS = [
    f"anthropic-ratelimit-{group}-{what}"
    for group in ("requests", "tokens", "input-tokens", "output-tokens")
    for what in ("limit", "remaining", "reset")
]


def moment(seconds: float) -> str:
    """Unix seconds in RFC 3339, whole ones from the next on: "2026-01-31T12:00:00Z"."""
    return datetime.fromtimestamp(-(-seconds // 1), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
