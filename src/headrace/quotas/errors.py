"""Why quotas turned a request away."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.quotas.limit import Limit, Standing


class StoreUnavailable(Exception):
    """Counters cannot be reached."""


class LimitReached(Exception):
    """A request that a limit does not let pass. limit: the one that holds longest; standings: of
    all. after: milliseconds until it passes if nobody else draws, None if it never will. final:
    nothing is won by trying again soon."""

    def __init__(
        self,
        message: str,
        *,
        limit: Limit,
        standings: Sequence[Standing],
        after: int | None,
        final: bool = False,
    ) -> None:
        super().__init__(message)
        self.limit = limit
        self.standings = standings
        self.after = after
        self.final = final
