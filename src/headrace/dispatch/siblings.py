"""The generations that make up one answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.dispatch.entry import Entry


@dataclass(eq=False, slots=True)
class Siblings:
    """Several choices or prompts of one request. begun: one of them had a place, so the others are
    neither refused nor late any more. waiting: those that have none yet, in the order they came."""

    begun: bool = False
    waiting: dict[Entry, None] = field(default_factory=dict)
