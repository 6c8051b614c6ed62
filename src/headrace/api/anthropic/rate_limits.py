"""Rate limits as Anthropic tells them, in headers of every answer."""

from __future__ import annotations

from datetime import UTC, datetime

NAMES = {
    group: tuple(f"anthropic-ratelimit-{group}-{what}" for what in ("limit", "remaining", "reset"))
    for group in ("requests", "tokens", "input-tokens", "output-tokens")
}
"""Of each group: its limit, what remains of it, and when it is whole again."""

HEADERS = [name for names in NAMES.values() for name in names]


def moment(seconds: float) -> str:
    """Unix seconds in RFC 3339, whole ones from the next on: "2026-01-31T12:00:00Z"."""
    return datetime.fromtimestamp(-(-seconds // 1), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
