"""The service itself: how it is, and whether it admits anything."""

from __future__ import annotations

from typing import Literal

import msgspec


class ServiceView(msgspec.Struct, frozen=True, kw_only=True):
    """draining: nothing new is admitted. requests: generations on their way."""

    object: Literal["service"] = "service"
    version: str
    draining: bool
    requests: int
    ledger_backlog: int
