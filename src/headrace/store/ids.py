"""Identifiers that sort by the time they were made."""

from __future__ import annotations

import secrets
import time
from uuid import UUID


def uuid7(now: int | None = None) -> UUID:
    """A UUID of version 7 (RFC 9562, section 5.7): 48 bits of unix milliseconds, 12 bits of the
    fraction of the millisecond (section 6.2, method 3), 62 random bits. Those that one process
    makes after one another are in order, as long as its clock is.

    now: unix nanoseconds.
    """
    milliseconds, fraction = divmod(time.time_ns() if now is None else now, 1_000_000)
    return UUID(
        int=milliseconds << 80
        | 7 << 76
        | (fraction << 12) // 1_000_000 << 64
        | 2 << 62
        | secrets.randbits(62)
    )
