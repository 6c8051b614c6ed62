"""What tokens cost."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID

from headrace.access.errors import AccessError

NANO = 10**9
"""Nano-units in a unit of money."""

HIGHEST_RATE = NANO
"""Nano-units a token: a unit of money for each. Sums of any request stay below 2**63."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Nano-units of money a token, whole numbers. cached_input: for tokens of the prompt that
    came from the prefix cache, instead of input."""

    input: int
    cached_input: int
    output: int

    def cost(self, *, prompt: int, cached: int, completion: int) -> int:
        """Nano-units, exact. cached: the part of the prompt's tokens that the cache had."""
        fresh = (prompt - cached) * self.input
        return fresh + cached * self.cached_input + completion * self.output


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """One version of a model's price; a change makes another one. valid_from: unix milliseconds.
    long_from: tokens of prompt from which a request is long and costs the long rates; both or
    neither are None."""

    id: UUID
    model: str
    version: int
    valid_from: int
    rates: Rates
    long_from: int | None = None
    long_rates: Rates | None = None

    @property
    def highest(self) -> Rates:
        """The most that each kind of token may cost, whatever the request."""
        kinds = [self.rates, *filter(None, [self.long_rates])]
        return Rates(
            input=max(max(rates.input, rates.cached_input) for rates in kinds),
            cached_input=max(rates.cached_input for rates in kinds),
            output=max(rates.output for rates in kinds),
        )

    def highest_cost(self, *, prompt: int, completion: int) -> int:
        """The most that a request of so many tokens, or fewer, may cost."""
        kinds = [self.rates, self.long_rates] if self.is_long(prompt) else [self.rates]
        return max(
            prompt * max(rates.input, rates.cached_input) + completion * rates.output
            for rates in kinds
            if rates is not None
        )

    def is_long(self, prompt: int) -> bool:
        return self.long_from is not None and prompt >= self.long_from

    def cost(self, *, prompt: int, cached: int, completion: int) -> int:
        """Nano-units of a request, exact: tokens of its prompt, of those the ones that the cache
        had, and tokens generated."""
        rates = self.long_rates if self.is_long(prompt) and self.long_rates else self.rates
        return rates.cost(prompt=prompt, cached=cached, completion=completion)


def parse_money(text: str) -> int:
    """Nano-units of an amount in decimals, such as "5.00". Raises AccessError: not a plain decimal
    number, or finer than a nano-unit."""
    return _scaled(text, NANO, "an amount of money has at most 9 decimals")


def parse_rate(text: str) -> int:
    """Nano-units a token of an amount a million tokens, such as "0.15". Raises AccessError: not a
    plain decimal number, finer than a nano-unit a token, or above a unit a token."""
    rate = _scaled(text, NANO // 10**6, "a price a million tokens has at most 3 decimals")
    if rate > HIGHEST_RATE:
        raise AccessError(f"{text}: a price a million tokens is at most 1000000")
    return rate


def format_money(nano: int) -> str:
    """The amount in decimals, as `parse_money` reads it."""
    return _formatted(nano, NANO)


def format_rate(nano: int) -> str:
    """The amount a million tokens in decimals, as `parse_rate` reads it."""
    return _formatted(nano, NANO // 10**6)


def _scaled(text: str, scale: int, too_fine: str) -> int:
    plain = text.strip()
    if not plain.replace(".", "", 1).isdecimal() or not plain.isascii() or len(plain) > 40:
        raise AccessError(f"{text!r} is not an amount such as 0.15")
    scaled = Decimal(plain) * scale
    if scaled != int(scaled):
        raise AccessError(f"{text}: {too_fine}")
    return int(scaled)


def _formatted(nano: int, scale: int) -> str:
    whole, rest = divmod(nano, scale)
    decimals = str(rest).rjust(len(str(scale)) - 1, "0").rstrip("0")
    return f"{whole}.{decimals.ljust(2, '0')}"
