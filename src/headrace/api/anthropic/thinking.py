"""Whether, and for how long, a model is to think before it answers."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class _Shown(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    """display: thoughts are shown as they are. They can't be left out, so `omitted` is only for
    models that have none."""

    display: Literal["summarized", "omitted"] | None = None


class ThinkingEnabled(_Shown, frozen=True, tag="enabled", kw_only=True):
    """budget_tokens: the most that thoughts may take."""

    budget_tokens: Annotated[int, Meta(ge=1, le=2**31 - 1)]


class ThinkingAdaptive(_Shown, frozen=True, tag="adaptive"):
    """The model decides for how long."""


class ThinkingDisabled(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="disabled"
):
    pass


Thinking = ThinkingEnabled | ThinkingAdaptive | ThinkingDisabled
