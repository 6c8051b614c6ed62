"""What a request asks of quotas, and what it came to."""

from __future__ import annotations

from msgspec import Struct

from headrace.access.limits import Unit


class Demand(Struct, frozen=True, kw_only=True):
    """Before dispatch. prompt_tokens: exact, each prompt once. output_tokens: the most that may be
    generated, over all choices; bounded: whether the caller set that bound. long: whether limits
    of long requests hold for it. cost: the most it may cost, in nano-units of money."""

    prompt_tokens: int
    output_tokens: int
    bounded: bool
    long: bool = False
    cost: int = 0

    def amounts(self, output_tokens: int) -> dict[Unit, int]:
        """What to draw of limits. output_tokens: that are expected."""
        return {
            "request": 1,
            "place": 1,
            "input_token": self.prompt_tokens,
            "output_token": output_tokens,
            "nano": self.cost,
        }


class Consumed(Struct, frozen=True, kw_only=True):
    """At the end. cost: nano-units of money. refused: it was turned away because of us, so that it
    does not count as a request."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: int = 0
    refused: bool = False

    def amounts(self) -> dict[Unit, int]:
        """What was used of limits; of places never anything."""
        return {
            "request": 0 if self.refused else 1,
            "place": 0,
            "input_token": self.prompt_tokens,
            "output_token": self.completion_tokens,
            "nano": self.cost,
        }
