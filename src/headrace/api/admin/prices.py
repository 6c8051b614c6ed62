"""Prices: what tokens cost."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from headrace.api.admin.fields import Moment, Rate, Word
from headrace.api.admin.pages import Listing


class PricesQuery(msgspec.Struct, frozen=True, kw_only=True):
    model: Word | UnsetType = UNSET


class LongPrice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What requests cost whose prompt has so many tokens at least. cached_input: as input
    without."""

    from_tokens: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    input: Rate
    cached_input: Rate | None = None
    output: Rate


class PriceBody(msgspec.Struct, frozen=True, kw_only=True):
    """Another version of a model's price; those before stay on record. cached_input: as input
    without. valid_from: now without; it can't be in the past."""

    model: Word
    input: Rate
    cached_input: Rate | None = None
    output: Rate
    long: LongPrice | None = None
    valid_from: Moment | None = None


class LongPriceView(msgspec.Struct, frozen=True, kw_only=True):
    from_tokens: int
    input: str
    cached_input: str
    output: str


class PriceView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["price"] = "price"
    model: str
    version: int
    valid_from: int
    input: str
    cached_input: str
    output: str
    long: LongPriceView | None


class PriceList(Listing, frozen=True, kw_only=True):
    data: list[PriceView]
