"""The value of a field that may be there but has to say nothing."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

Empty = Annotated[list[None], Meta(max_length=0)] | None
"""Null or an empty list: clients send such fields back with an answer."""
