"""Where counters are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

from headrace.quotas.limit import Draw, Level, Limit, Standing


class Settlement(Struct, frozen=True, gc=False):
    """What was drawn of a limit, and what of it was used in the end: none of slots, and of a bucket
    or budget whatever it was, more than was drawn included."""

    limit: Limit
    drawn: int
    used: int


class Outcome(Struct, frozen=True, gc=False):
    """standings: of every draw's limit, after it if it was granted. unseeded: budgets of which it
    is not known what was spent, so that nothing was drawn and nothing is said."""

    status: Literal["granted", "refused", "unseeded"]
    standings: Sequence[Standing] = ()
    unseeded: Sequence[Limit] = ()


def outcome_of(
    draws: Sequence[Draw], levels: Sequence[Level | None], status: Literal["granted", "refused"]
) -> Outcome:
    """A budget's level is None if it is unknown."""
    standings = [
        Standing(draw.limit, draw.amount, level)
        for draw, level in zip(draws, levels, strict=True)
        if level is not None
    ]
    if len(standings) == len(draws):
        return Outcome(status, standings)
    pairs = zip(draws, levels, strict=True)
    return Outcome("unseeded", unseeded=[draw.limit for draw, level in pairs if level is None])


class Store(Protocol):
    """Counters of accounts, one a tenant. Every call is atomic, and its clock is the store's."""

    async def reserve(
        self, account: str, id: str, draws: Sequence[Draw], *, forced: bool = False
    ) -> Outcome:
        """Draw all, or nothing if one does not fit. A reservation that exists already is granted
        and draws nothing more. forced: whether or not it fits."""
        ...

    async def settle(self, account: str, id: str, settlements: Sequence[Settlement]) -> None:
        """End a reservation. Once it is settled nothing changes any more."""
        ...

    async def seed(self, account: str, counter: str, spent: int) -> None:
        """Begin a budget's counter with what was spent already, unless it has begun."""
        ...

    async def look(self, account: str, limits: Sequence[Limit]) -> Outcome:
        """How limits stand, of which nothing is drawn."""
        ...
