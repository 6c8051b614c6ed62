"""Why a sequence ends."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from headrace.engine.output import FinishReason

log = structlog.get_logger("headrace.engine")


@dataclass(frozen=True, slots=True)
class Ending:
    """The fields are those of `Finish`."""

    reason: FinishReason
    matched: str | int | None = None
    error: str | None = None


def ending_by(error: Exception) -> Ending:
    """Of a sequence whose grammar could not be followed. A ValueError is the grammar's fault, and
    its text meant for the caller; any other is ours."""
    if isinstance(error, ValueError):
        return Ending("refused", error=f"the grammar can't be followed: {error}")
    log.error("constraint failed", exc_info=error)
    return Ending("error", error=f"the grammar can't be followed ({type(error).__name__})")
