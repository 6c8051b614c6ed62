"""Rate limits as OpenAI tells them, in headers of every answer."""

from __future__ import annotations

NAMES = {
    group: tuple(f"x-ratelimit-{what}-{group}" for what in ("limit", "remaining", "reset"))
    for group in ("requests", "tokens", "input-tokens", "output-tokens")
}
"""Of each group: its limit, what remains of it, and when it is whole again."""

HEADERS = [name for names in NAMES.values() for name in names]


def duration(milliseconds: int) -> str:
    """As in "6ms", "1s" or "1m2s"; whole seconds from the first on, rounded up."""
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, seconds = divmod(-(-milliseconds // 1000), 60)
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
