"""Threads on which requests are prepared beside the event loop, and what bounds their number."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

from headrace.edge.intake import Intake
from headrace.turns.threads import FairThreads

UNDER_WAY = 32 << 20
"""Bytes of bodies under way, unless the largest body that is allowed needs more."""


def preparing_threads() -> int:
    """Two, and on large machines one for each eight processors."""
    return max(2, (os.cpu_count() or 1) // 8)


class Aside:
    """What all requests share until they are planned. threads: parse, render and tokenise, in
    turns of the tenants. intake: the bodies under way. now: unix seconds, in which deadlines are.
    dice: spread the times after which to come back."""

    def __init__(
        self,
        max_body_bytes: int = 16 << 20,
        *,
        now: Callable[[], float] = time.time,
        dice: random.Random | None = None,
    ) -> None:
        """max_body_bytes: of one request; twice as much may be under way."""
        self.now = now
        self.dice = dice or random.Random()
        self.threads = FairThreads(preparing_threads(), "prepare")
        self.intake = Intake(max(UNDER_WAY, 2 * max_body_bytes))

    def close(self) -> None:
        """End the threads."""
        self.threads.close()
