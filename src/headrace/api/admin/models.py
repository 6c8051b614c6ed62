"""Models: which are in memory, and having them there or not."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from headrace.api.admin.pages import Listing


class Unload(msgspec.Struct, frozen=True, kw_only=True):
    """grace_seconds: for which what runs may finish. close: take no request for it until it is
    loaded by hand; else the next one loads it again."""

    grace_seconds: Annotated[float, Meta(ge=0, le=3600)] = 30.0
    close: bool = False


class ModelView(msgspec.Struct, frozen=True, kw_only=True):
    """load: when it is loaded. closed: it takes no requests. memory_bytes: that its engine holds at
    most when it is loaded. error: why the last load failed, or the engine ended that is not
    replaced yet. requests: on their way to it or on
    it, of which so many are queued or running."""

    object: Literal["hosted_model"] = "hosted_model"
    name: str
    version: str
    tier: str | None
    context_length: int
    state: Literal["unloaded", "loading", "ready", "draining"]
    load: Literal["start", "demand"]
    closed: bool
    memory_bytes: int
    error: str | None
    requests: int
    queued: int
    running: int


class HostedModelList(Listing, frozen=True, kw_only=True):
    """The default first."""

    data: list[ModelView]
