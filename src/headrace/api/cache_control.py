"""Anthropic's mark of a prompt's beginning that is to be cached."""

from __future__ import annotations

from typing import Literal

import msgspec


class CacheControl(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Asks that everything up to here is kept for later requests. Every prompt is cached as far
    as there is room, so it changes nothing, and `ttl` is no promise."""

    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] | None = None
