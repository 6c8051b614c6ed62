"""A request that is turned away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ShedReason = Literal["queue_full", "would_be_late", "waited_too_long", "no_worker"]
"""no_worker: none will come, or came, before its deadline. All others: there is too much work."""


@dataclass(frozen=True, slots=True)
class Shed:
    """message: a sentence for the caller. wait: seconds after which it is worth another try."""

    reason: ShedReason
    message: str
    wait: float
