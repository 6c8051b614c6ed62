"""Why a request was not given a place."""

from __future__ import annotations

import random


class Refused(Exception):
    """No place. reason: a short machine-readable word; retry_after: seconds, jittered so
    that a crowd which was refused together does not come back together."""

    def __init__(self, reason: str, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.reason = reason
        self.retry_after = retry_after


class Overloaded(Refused):
    """There is too much work for all of us (HTTP 529). reason: a `dispatch.shed.ShedReason`."""


class Unavailable(Refused):
    """Nobody is there to do the work (HTTP 503). reason: "no_worker" or "draining"."""


def jittered(seconds: float, dice: random.Random | None = None) -> float:
    """A time after which to come back: once to three times as long."""
    return seconds * (dice or random).uniform(1.0, 3.0)
