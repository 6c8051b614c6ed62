"""What a tenant or a key may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Literal, get_args, get_type_hints

import msgspec

from headrace.access.errors import AccessError

Period = Literal["day", "month"]
Kind = Literal["rate", "slots", "budget"]
"""How uses are counted: in a bucket that fills within a minute, at once, or in a period."""

Unit = Literal["request", "place", "input_token", "output_token", "nano"]
"""What is counted. nano: of money, 10^-9."""

LARGEST = 2**53
"""Whole numbers up to here are exact wherever they are counted, in doubles too."""

Count = Annotated[int, msgspec.Meta(ge=1, le=LARGEST)]
Money = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]


@dataclass(frozen=True, slots=True)
class About:
    """A limit in words for the command line, and what `quotas` counts for it: None where nothing is
    counted."""

    help: str
    kind: Kind | None = None
    unit: Unit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """None is no limit. The same kinds hold for a tenant and for each of its keys, both at once.

    *_per_minute: buckets of that size which fill evenly within a minute. concurrent_requests:
    on their way at once. budget: integer nano-units of money a `budget_period`, which begins at
    midnight UTC of its first day. long_*: the same for long requests alone, beside the others.
    default_max_tokens: of an answer whose request names no limit, instead of the model's.
    """

    requests_per_minute: Annotated[Count | None, About("Requests a minute", "rate", "request")] = (
        None
    )
    input_tokens_per_minute: Annotated[
        Count | None, About("Prompt tokens a minute", "rate", "input_token")
    ] = None
    output_tokens_per_minute: Annotated[
        Count | None, About("Generated tokens a minute", "rate", "output_token")
    ] = None
    concurrent_requests: Annotated[Count | None, About("Requests at once", "slots", "place")] = None
    budget: Annotated[Money | None, About("Money a period, e.g. 5.00", "budget", "nano")] = None
    budget_period: Annotated[Period, About("When the budget begins anew: day or month, in UTC")] = (
        "month"
    )
    long_requests_per_minute: Annotated[
        Count | None, About("Long requests a minute, beside the others", "rate", "request")
    ] = None
    long_input_tokens_per_minute: Annotated[
        Count | None,
        About("Tokens of long prompts a minute, beside the others", "rate", "input_token"),
    ] = None
    long_concurrent_requests: Annotated[
        Count | None, About("Long requests at once, beside the others", "slots", "place")
    ] = None
    default_max_tokens: Annotated[
        Count | None, About("Tokens of an answer whose request names no limit")
    ] = None

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Limits:
        """Raises AccessError, which names the limit: unknown, of another type or out of range."""
        if unknown := values.keys() - ABOUT.keys():
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

ABOUT: Mapping[str, About] = {
    name: get_args(hint)[1] for name, hint in get_type_hints(Limits, include_extras=True).items()
}
"""What each limit is, by its name."""


def _explained(fault: str) -> str:
    """msgspec says "Expected `int` >= 1 - at `$.budget`"."""
    what, _, where = fault.partition(" - at `$.")
    return f"{where.rstrip('`')}: {what[0].lower()}{what[1:]}".replace("`", "")
