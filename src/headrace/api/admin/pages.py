"""Lists, whole or page by page."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

Limit = Annotated[int, Meta(ge=1, le=1000, description="Items of a page.")]
After = Annotated[
    str, Meta(min_length=1, max_length=200, description="last_id of the page before.")
]


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """A list in one piece unless `has_more`."""

    object: Literal["list"] = "list"
    has_more: bool = False


class Page(Listing, frozen=True, kw_only=True):
    """has_more: there are more behind last_id. first_id, last_id: of the first and the last item;
    null where the page is empty."""

    first_id: str | None = None
    last_id: str | None = None


class PageQuery(msgspec.Struct, frozen=True, kw_only=True):
    limit: Limit = 100
    after: After | UnsetType = UNSET
