"""What a tenant or a key may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Literal

import msgspec

from headrace.access.errors import AccessError

Period = Literal["day", "month"]

LARGEST = 2**53
"""Whole numbers up to here are exact wherever they are counted, in doubles too."""

Count = Annotated[int, msgspec.Meta(ge=1, le=LARGEST)]
Money = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """None is no limit. The same kinds hold for a tenant and for each of its keys, both at once.

    *_per_minute: buckets of that size which fill evenly within a minute. concurrent_requests:
    on their way at once. budget: integer nano-units of money a `budget_period`, which begins at
    midnight UTC of its first day. long_*: the same for long requests alone, beside the others.
    default_max_tokens: of an answer whose request names no limit, instead of the model's.
    """

    requests_per_minute: Count | None = None
    input_tokens_per_minute: Count | None = None
    output_tokens_per_minute: Count | None = None
    concurrent_requests: Count | None = None
    budget: Money | None = None
    budget_period: Period = "month"
    long_requests_per_minute: Count | None = None
    long_input_tokens_per_minute: Count | None = None
    long_concurrent_requests: Count | None = None
    default_max_tokens: Count | None = None

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Limits:
        """Raises AccessError, which names the limit: unknown, of another type or out of range."""
        if unknown := set(values) - {field.name for field in fields(cls)}:
            raise AccessError(f"unknown limit {min(unknown)!r}")
        try:
            return msgspec.convert(values, cls)
        except msgspec.ValidationError as error:
            raise AccessError(_explained(str(error))) from None

    def changed(self, values: Mapping[str, object]) -> Limits:
        """With these instead of its own. Raises AccessError as `of`."""
        return Limits.of(asdict(self) | dict(values))

    def checked(self) -> Limits:
        """Itself. Raises AccessError as `of`."""
        return Limits.of(asdict(self))

    def given(self) -> dict[str, object]:
        """What is not as by default: `of` makes the same limits of it."""
        return {name: v for name, v in asdict(self).items() if v != getattr(UNLIMITED, name)}


UNLIMITED = Limits()


def _explained(fault: str) -> str:
    """msgspec says "Expected `int` >= 1 - at `$.budget`"."""
    what, _, where = fault.partition(" - at `$.")
    return f"{where.rstrip('`')}: {what[0].lower()}{what[1:]}".replace("`", "")
