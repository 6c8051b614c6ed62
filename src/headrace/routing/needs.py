"""What a request asks of the model that is chosen for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Capability = Literal["tools", "reasoning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the caller demands: a price a token of nano-units at most, abilities of the model's
    own chat template, a context of so many tokens at least."""

    max_input_price: int | None = None
    max_output_price: int | None = None
    capabilities: frozenset[Capability] = frozenset()
    context_length: int = 0

    @property
    def priced(self) -> bool:
        return self.max_input_price is not None or self.max_output_price is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """tools, reasoning: what the request makes use of, so that a model that knows it is better
    than one that doesn't. tokens: prompt and answer have as many at least."""

    tools: bool = False
    reasoning: bool = False
    tokens: int = 0
    wishes: Wishes = field(default=Wishes())
