"""What `GET /v1/models` answers."""

from __future__ import annotations

from typing import Literal

import msgspec


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """created: unix seconds. max_model_len, context_length, context_window: tokens of prompt and
    answer together, under the names that vLLM's, OpenRouter's and Groq's clients read."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "headrace"
    max_model_len: int
    context_length: int
    context_window: int


def model_card(name: str, created: int, context_length: int) -> ModelCard:
    """created: unix seconds; context_length: tokens."""
    return ModelCard(
        id=name,
        created=created,
        max_model_len=context_length,
        context_length=context_length,
        context_window=context_length,
    )


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    object: Literal["list"] = "list"
    data: list[ModelCard]
