"""What one HTTP request costs, at its beginning and at its end."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

import msgspec

Ending = Literal["stop", "length", "cancelled", "error", "rejected", "interrupted"]
"""How a request ended: by itself, at its token limit, by its caller, by a fault, before it got
a place, or with the process that served it."""


class OpenCharge(msgspec.Struct, frozen=True, kw_only=True):
    """A request that is about to be dispatched. id: a UUID of version 7; request_id: what
    x-request-id says; endpoint: the path that was asked; price_id: the price it is charged by."""

    id: UUID
    tenant_id: UUID
    key_id: str
    request_id: str
    model: str
    model_version: str
    endpoint: str
    stream: bool
    price_id: UUID | None = None


class ClosedCharge(msgspec.Struct, frozen=True, kw_only=True):
    """What a request came to. cached_tokens are part of prompt_tokens, reasoning_tokens of
    completion_tokens; cost: nano-units of money."""

    id: UUID
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    ending: Ending
    cost: int = 0
