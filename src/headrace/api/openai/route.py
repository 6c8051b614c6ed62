"""What a caller demands of the model that is chosen: the field `route`, beyond OpenAI."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Amount = Annotated[float, Meta(ge=0, le=1e6)]
Tokens = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class MaxPrice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Units of money for a million tokens at most."""

    input: Amount | None = None
    output: Amount | None = None


class RouteLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """max_price: also for a long request. capabilities: what the model's own chat template must
    know. context_length: tokens, at least."""

    max_price: MaxPrice | None = None
    capabilities: Annotated[list[Literal["tools", "reasoning"]], Meta(max_length=2)] = []
    context_length: Tokens | None = None
