"""What `GET /v1/models` answers to callers who speak Anthropic's dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from headrace.api.anthropic.rate_limits import moment


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """created_at: RFC 3339. max_input_tokens: of prompt and answer together."""

    type: Literal["model"] = "model"
    id: str
    display_name: str
    created_at: str
    max_input_tokens: int
    lifecycle: Literal["active"] = "active"


class ModelPage(msgspec.Struct, frozen=True, kw_only=True):
    """All of them: there is no other page."""

    data: list[ModelInfo]
    has_more: bool = False
    first_id: str | None
    last_id: str | None


def model_info(name: str, created: int, context_length: int) -> ModelInfo:
    """created: unix seconds; context_length: tokens."""
    return ModelInfo(
        id=name, display_name=name, created_at=moment(created), max_input_tokens=context_length
    )


def model_page(models: Sequence[ModelInfo]) -> ModelPage:
    first, last = (models[0].id, models[-1].id) if models else (None, None)
    return ModelPage(data=list(models), first_id=first, last_id=last)
