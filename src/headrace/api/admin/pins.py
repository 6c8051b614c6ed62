"""Pins: versions of models that tenants stay with."""

from __future__ import annotations

from typing import Literal

import msgspec

from headrace.api.admin.fields import Name, Word
from headrace.api.admin.pages import Listing


class PinQuery(msgspec.Struct, frozen=True, kw_only=True):
    tenant: Name


class PinBody(msgspec.Struct, frozen=True, kw_only=True):
    version: Word


class PinView(msgspec.Struct, frozen=True, kw_only=True):
    object: Literal["pin"] = "pin"
    tenant: str
    model: str
    version: str


class PinList(Listing, frozen=True, kw_only=True):
    data: list[PinView]
