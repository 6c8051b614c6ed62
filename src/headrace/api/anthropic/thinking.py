"""Whether, and for how long, a model is to think before it answers."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

LEAST_BUDGET = 1024


class ThinkingEnabled(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="enabled"
):
    """budget_tokens: the most that thoughts may take."""

    budget_tokens: Annotated[int, Meta(ge=LEAST_BUDGET, le=2**31 - 1)]


class ThinkingDisabled(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="disabled"
):
    pass


Thinking = ThinkingEnabled | ThinkingDisabled
