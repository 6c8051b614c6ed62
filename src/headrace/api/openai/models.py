"""What `GET /v1/models` answers."""

from __future__ import annotations

from typing import Literal

import msgspec


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """created: unix seconds."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "headrace"


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    object: Literal["list"] = "list"
    data: list[ModelCard]
