"""A limit that is in force, what is drawn from it, and how it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from msgspec import Struct

from headrace.access.limits import Kind, Unit

Subject = Literal["tenant", "key"]

MINUTE = 60_000
"""Milliseconds; and in a bucket, what one request or token is counted as. A bucket of n then
fills by exactly n each millisecond, so that no fraction is ever lost or won."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """rate: a bucket of `size` that fills evenly by `rate` a minute. slots: `size` at once.
    budget: `size` nano-units of money until `ends`, in unix milliseconds.

    unit: what it is a number of. name: the field of `access.limits.Limits` that says so, and
    `subject` called `whose` has it.
    counter: what is counted, unique within its tenant's account. stated: the size as it was
    configured, of which `size` may be a share.
    """

    kind: Kind
    unit: Unit
    name: str
    subject: Subject
    whose: str
    counter: str
    size: int
    rate: int
    stated: int
    ends: int = 0


class Draw(Struct, frozen=True, gc=False):
    """So much of a limit, all or nothing with the draws beside it. Of 0 it only looks."""

    limit: Limit
    amount: int


class Level(Struct, frozen=True, gc=False):
    """What is used of a limit. used: in a bucket, MINUTE for each; of a budget, spent and held.
    held: the part of it that comes back."""

    used: int
    held: int


class Standing(Struct, frozen=True, gc=False):
    """A limit and its level, `amount` of which this request drew or wanted to draw."""

    limit: Limit
    amount: int
    level: Level

    @property
    def fits(self) -> bool:
        """Whether the amount could be drawn as things stand."""
        limit, amount = self.limit, self.amount
        unit = MINUTE if limit.kind == "rate" else 1
        return amount == 0 or self.level.used + amount * unit <= limit.size * unit

    @property
    def remaining(self) -> int:
        """Whole ones that are left."""
        limit = self.limit
        unit = MINUTE if limit.kind == "rate" else 1
        return max(0, limit.size * unit - self.level.used) // unit

    @property
    def used(self) -> int:
        """Whole ones, begun ones included."""
        return -(-self.level.used // self._unit)

    @property
    def reset(self) -> int:
        """Milliseconds until a bucket is full again, if nobody draws from it."""
        return -(-self.level.used // self.limit.rate)

    @property
    def wait(self) -> int:
        """Milliseconds until a bucket has the amount, if nobody draws from it."""
        lacking = self.level.used + self._weight - self._capacity
        return max(0, -(-lacking // self.limit.rate))

    @property
    def _unit(self) -> int:
        return MINUTE if self.limit.kind == "rate" else 1

    @property
    def _capacity(self) -> int:
        return self.limit.size * self._unit

    @property
    def _weight(self) -> int:
        return self.amount * self._unit
