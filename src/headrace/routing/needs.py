"""What a request asks of the model that is chosen for it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Capability = Literal["tools", "reasoning"]


class Wishes(Struct, frozen=True, kw_only=True):
    """What the caller demands: a price a token of nano-units at most, abilities of the model's
    own chat template, a context of so many tokens at least."""

    max_input_price: int | None = None
    max_output_price: int | None = None
    capabilities: frozenset[Capability] = frozenset()
    context_length: int = 0

    @property
    def priced(self) -> bool:
        return self.max_input_price is not None or self.max_output_price is not None


NO_WISHES = Wishes()


class Needs(Struct, frozen=True, kw_only=True):
    """tools, reasoning: what the request makes use of, so that a model that knows it is better
    than one that doesn't. tokens: prompt and answer have as many at least."""

    tools: bool = False
    reasoning: bool = False
    tokens: int = 0
    wishes: Wishes = NO_WISHES
