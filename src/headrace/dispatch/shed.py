"""A request that is turned away because there is too much work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ShedReason = Literal["queue_full", "would_be_late", "waited_too_long"]


@dataclass(frozen=True, slots=True)
class Shed:
    """message: a sentence for the caller. wait: seconds after which it is worth another try."""

    reason: ShedReason
    message: str
    wait: float
