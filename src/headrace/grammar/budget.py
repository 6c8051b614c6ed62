"""How long thoughts may be."""

from __future__ import annotations

import msgspec

from headrace.text.reasoning import Thinking


class ThoughtBudget(msgspec.Struct, frozen=True):
    """tokens: the most that thoughts have between their markers."""

    thinking: Thinking
    tokens: int
